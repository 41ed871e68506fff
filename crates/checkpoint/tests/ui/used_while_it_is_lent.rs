//! Memory cannot be read through another reference while it is restored.
use checkpoint::nvmem::ram::RamFram;
use checkpoint::{Images, Memory};

fn main() {
    let mut statics = [0; 8];
    let mut images = Images::<_, 2>::open(RamFram::<256>::filled(0), 0..256, 1).unwrap();
    let mut memory = Memory::new(&mut statics, &mut [], &mut []);
    let first = &statics[0];
    images.restore(&mut memory).ok();
    println!("{first}");
}
