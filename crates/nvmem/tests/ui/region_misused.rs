use core::mem::MaybeUninit;
use nvmem::{InOrder32, Region};

type R<'m> = Region<'m, InOrder32>;

fn twice(memory: &mut [MaybeUninit<u64>]) -> (R<'_>, R<'_>) {
    (Region::new(memory), Region::new(memory))
}

fn after_its_split(r: R<'_>) -> usize {
    let _parts = r.split_at(8);
    r.len()
}

fn longer_than_its_memory() -> R<'static> {
    let mut memory = [MaybeUninit::new(0); 8];
    Region::new(&mut memory)
}

fn main() {}
