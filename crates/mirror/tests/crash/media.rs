//! Chips of the campaigns.

use nvmem::device::{Contract, EraseUnit, Torn};
use powerfail::Chip;

/// A flash of `ERASE`-byte units and words of `WORD` bytes, small enough to be explored.
pub enum Small<const ERASE: u32, const WORD: u32, const ERASED: u8> {}

impl<const ERASE: u32, const WORD: u32, const ERASED: u8> Chip for Small<ERASE, WORD, ERASED> {
    const CONTRACT: Contract = Contract {
        name: "small-flash",
        read_size: 1,
        write_size: WORD,
        unit: 1,
        torn: Torn::Unstable,
        erase: Some(EraseUnit {
            size: ERASE,
            erased: ERASED,
            write_once: true,
            endurance: 0,
        }),
    };
}
