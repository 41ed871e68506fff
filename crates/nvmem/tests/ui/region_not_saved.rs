use core::mem::MaybeUninit;
use nvmem::at_rest::{AtRest, Save};
use nvmem::{InOrder32, Region};

/// A saver reads all bytes, and those of this region may be padding.
fn save<S: Save>(saver: &mut S, memory: &mut [MaybeUninit<u64>]) -> Result<(), S::Error> {
    saver.durable(&mut Region::<InOrder32>::new(memory))
}

fn rest(region: &mut Region<'_, nvmem::Ram>) -> usize {
    region.resting(|r| r.len)
}

fn main() {}
