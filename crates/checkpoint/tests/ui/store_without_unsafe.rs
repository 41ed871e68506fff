//! Implementing a store needs `unsafe`: it promises that a program can continue after `load`.
use checkpoint::{Error, Memory, Restored, Store};

struct Mine;

impl Store for Mine {
    type Error = ();
    fn save(&mut self, _: &Memory<'_>, _: u32) -> Result<(), Error<()>> {
        Ok(())
    }
    fn load(&mut self, _: &mut Memory<'_>) -> Result<Restored, Error<()>> {
        Err(Error::NoImage)
    }
}

fn main() {}
