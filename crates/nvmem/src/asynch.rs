//! [`Record`] on media whose drivers wait for interrupts:
//! [`AsyncMedium`](crate::device::AsyncMedium).

use crate::device::AsyncMedium as Medium;

macro_rules! output {
    ($t:ty) => { impl Future<Output = $t> };
}
macro_rules! steps {
    ($b:block) => { async move $b };
}
macro_rules! wait {
    ($e:expr) => {
        $e.await
    };
}

#[path = "level/pages.rs"]
mod level;
#[path = "level/log.rs"]
mod log;
#[path = "marker/io.rs"]
mod marker;
#[path = "record/value.rs"]
mod record;
#[path = "record/ring.rs"]
mod ring;
#[path = "level/scan.rs"]
mod scan;

pub use level::WearLevelled;
pub use record::Record;
