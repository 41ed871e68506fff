//! The blocking form: see `nvmem`'s `blocking`. The same file is compiled here over [`Medium`] and
//! in [`asynch`](crate::asynch) over [`AsyncMedium`](nvmem::device::AsyncMedium).

use nvmem::device::Medium;
use nvmem::marker;

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

#[path = "mirror.rs"]
pub mod mirror;

use crate::error::MirrorError;
use mirror::Mirror;
use nvmem::at_rest::{AtRest, Save};

impl<D: Medium> Save for Mirror<'_, D> {
    type Error = MirrorError<D::Error>;
    fn committed<T: AtRest>(&mut self, owner: &mut T) -> Result<(), Self::Error> {
        Mirror::committed(self, owner)
    }
    fn durable_if_due<T: AtRest>(&mut self, owner: &mut T) -> Result<(), Self::Error> {
        Mirror::durable_if_due(self, owner)
    }
    fn durable<T: AtRest>(&mut self, owner: &mut T) -> Result<(), Self::Error> {
        Mirror::durable(self, owner)
    }
}
