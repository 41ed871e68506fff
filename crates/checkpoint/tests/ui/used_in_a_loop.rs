//! A function that never returns also keeps memory borrowed while it is used.
use checkpoint::nvmem::ram::RamFram;
use checkpoint::{Full, Images, Memory};

fn main_loop(state: &mut [u8; 8], mut images: Images<RamFram<256>, 2>) -> ! {
    let memory = Memory::new(state, &mut [], &mut []);
    loop {
        images.checkpoint(&Full, &memory, 0).ok();
        state[0] += 1;
    }
}

fn main() {
    let images = Images::open(RamFram::<256>::filled(0), 0..256, 1).unwrap();
    main_loop(&mut [0; 8], images);
}
