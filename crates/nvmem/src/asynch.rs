//! [`Record`] and [`WearLevelled`] on media whose drivers wait for interrupts, for an executor such
//! as embassy's.
//!
//! They are the blocking [`record`](crate::record) and [`level`](crate::level), compiled for
//! [`AsyncMedium`](crate::device::AsyncMedium): the same source, methods, errors, order of stores
//! and bytes on the medium. An image of one form opens with the other.
//!
//! Media are the driver of a serial FRAM (`spi_fram::AsyncSpiFram`), and any flash driver of
//! embedded-storage-async in a [`FromNor`](crate::adapter::FromNor):
//!
//! ```
//! use embedded_storage_async::nor_flash::NorFlash;
//! use nvmem::adapter::FromNor;
//! use nvmem::asynch::Record;
//! use nvmem::record::RecordError;
//!
//! /// Counts boots. `flash` is the HAL's driver, or a partition of it.
//! async fn count_boot<F: NorFlash>(flash: F) -> Result<u32, RecordError<F::Error>> {
//!     let size = Record::<u32, FromNor<F>>::bytes(16);
//!     let mut boots = Record::open(FromNor::new(flash), 0..size, 0).await?;
//!     let n = boots.get() + 1;
//!     boots.set(n).await?;
//!     Ok(n)
//! }
//! ```
//!
//! # Cancel safety
//!
//! A future that is dropped before it is ready leaves the medium as a power cut at that moment
//! would, never worse. What a method says under **Power loss** holds, and the object can go on:
//!
//! - After a dropped [`Record::set`], [`Record::get`] returns the old value, and the next `set`
//!   works. A later boot finds the old value, the new one, or one that was set after them.
//! - After a dropped write to a [`WearLevelled`], each page is old or new. The next call scans the
//!   flash as [`WearLevelled::open`] does. From then on the page stays as that scan found it.
//! - A dropped `open` or `format` returns no object. Call it again with the medium.
//! - A dropped read changes nothing.
//!
//! This needs a driver as [`AsyncMedium`](crate::device::AsyncMedium) requires it: if its future is
//! dropped, it completes or stops that operation before it begins the next one.

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
#[doc(hidden)]
#[path = "marker/io.rs"]
pub mod marker;
#[path = "record/value.rs"]
mod record;
#[path = "record/ring.rs"]
mod ring;
#[path = "level/scan.rs"]
mod scan;

pub use level::WearLevelled;
pub use record::Record;
