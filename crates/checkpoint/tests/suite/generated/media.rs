//! Kinds of flash, and images whose numbers soon wrap.

use super::stores::{InLog, InSlots, Layout};
use crate::images::resequenced;
use crate::log::wrap::renumbered;
use crate::support::nor::nor;
use checkpoint::{Memory, Split, Store};
use nvmem::device::{Contract, EraseUnit, Medium};
use nvmem::ram::{RamFram, RamNor};
use powerfail::{Chip, Simulated, SpiFram};

/// Words of 32 bytes.
pub enum Words32 {}
impl Chip for Words32 {
    const CONTRACT: Contract = nor("words-32", 32, 256, 0xFF);
}

/// Words of 4 bytes, which may be programmed again with all bits.
pub enum Multiwrite {}
impl Chip for Multiwrite {
    const CONTRACT: Contract = Contract {
        erase: Some(EraseUnit {
            size: 256,
            erased: 0xFF,
            write_once: false,
            endurance: 0,
        }),
        ..nor("multiwrite", 4, 256, 0xFF)
    };
}

/// A word holds a cell or a record, and two words fill a unit.
pub enum HalfPages {}
impl Chip for HalfPages {
    const CONTRACT: Contract = nor("half-pages", 128, 256, 0x00);
}

/// Bytes of the media, with and without erase.
pub const FRAM: usize = 4096;
pub const FLASH: usize = 32 * 256;

/// Numbers wrap after one more; those of a log, where each boot takes two, after two.
const LAST: u32 = u32::MAX - 1;
const OTHER_BUILD: u64 = 99;

/// Another program's checkpoint, with the last numbers before they wrap.
fn numbered<L: Layout, D: Medium>(blank: &mut D) {
    let store = L::open(blank, OTHER_BUILD, false);
    let mut statics = [1; 4];
    let memory = Memory::new(&mut statics, &mut [], &mut []);
    store.expect("room").save(&memory, 0).expect("room");
}

pub fn log_on_fram() -> Simulated<SpiFram> {
    let mut nv = RamFram::<FRAM>::filled(0);
    numbered::<InLog<32>, _>(&mut nv);
    renumbered(nv.bytes_mut(), LAST - 1, LAST - 1);
    Simulated::with_image(nv.bytes().to_vec())
}

pub fn log_on_flash() -> Simulated<HalfPages> {
    let mut nv = RamNor::<{ FLASH / 256 }, 256, 128, 0>::new();
    numbered::<InLog<128>, _>(&mut nv);
    renumbered(nv.bytes_mut(), LAST - 1, LAST - 1);
    Simulated::with_image(nv.bytes().to_vec())
}

pub fn slots_on_fram() -> Simulated<SpiFram> {
    let mut nv = RamFram::<FRAM>::filled(0);
    numbered::<InSlots<Split, 2>, _>(&mut nv);
    // The head, three extents of which one has four bytes, and the trailer.
    resequenced(nv.bytes_mut(), LAST, 36 + 3 * 8 + 4 + 8);
    Simulated::with_image(nv.bytes().to_vec())
}
