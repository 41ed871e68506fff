use core::mem::MaybeUninit;
use nvmem::Region;

enum Cached {}

fn main() {
    let mut memory = [const { MaybeUninit::new(0) }; 8];
    let _: Region<'_, Cached> = Region::new(&mut memory);
}
