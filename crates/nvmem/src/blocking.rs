//! The blocking form of what reads and writes a medium.
//!
//! Each file named here is written once and compiled twice: here over [`Medium`], and in
//! [`asynch`](crate::asynch) over [`AsyncMedium`](crate::device::AsyncMedium). Three macros make
//! the difference:
//!
//! | in the source | blocking | async |
//! |---|---|---|
//! | `fn f() -> output!(T)` | `fn f() -> T` | `fn f() -> impl Future<Output = T>` |
//! | `steps!({ ... })` | `{ ... }` | `async move { ... }` |
//! | `wait!(f())` | `f()` | `f().await` |
//!
//! So the blocking form is ordinary code that knows nothing of futures. The algorithm written only
//! as `async`, and polled once, would cost a blocking program 1.9 times the code of a record.

use crate::device::Medium;

macro_rules! output {
    ($t:ty) => {
        $t
    };
}
macro_rules! steps {
    ($b:block) => {
        $b
    };
}
macro_rules! wait {
    ($e:expr) => {
        $e
    };
}

#[path = "level/pages.rs"]
pub mod level;
#[path = "level/log.rs"]
pub mod log;
#[path = "marker/io.rs"]
pub mod marker;
#[path = "record/value.rs"]
pub mod record;
#[path = "record/ring.rs"]
pub mod ring;
#[path = "level/scan.rs"]
mod scan;
