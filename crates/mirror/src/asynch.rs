//! [`Mirror`] on a medium whose driver waits for interrupts, for an executor such as embassy's.
//!
//! It is the blocking [`Mirror`](crate::Mirror), compiled for [`AsyncMedium`]: the same source,
//! methods, errors, order of stores and bytes on the medium. An image of one form opens with the
//! other.
//!
//! # Cancel safety
//!
//! A future that is dropped before it is ready leaves the medium as a power cut at that moment
//! would, never worse, and the mirror can go on: the next save starts a new segment. A dropped
//! `open` returns no mirror. Call it again with the medium.
//!
//! [`AsyncMedium`]: nvmem::device::AsyncMedium

use nvmem::asynch::marker;
use nvmem::device::AsyncMedium as Medium;

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

#[path = "mirror.rs"]
mod mirror;

pub use mirror::Mirror;

use crate::error::MirrorError;
use nvmem::at_rest::{AsyncSave, AtRest};

impl<D: Medium> AsyncSave for Mirror<'_, D> {
    type Error = MirrorError<D::Error>;
    fn count_commit(&mut self) {
        Mirror::count_commit(self)
    }
    async fn durable_if_due<T: AtRest>(&mut self, owner: &mut T) -> Result<(), Self::Error> {
        Mirror::durable_if_due(self, owner).await
    }
    async fn durable<T: AtRest>(&mut self, owner: &mut T) -> Result<(), Self::Error> {
        Mirror::durable(self, owner).await
    }
}
