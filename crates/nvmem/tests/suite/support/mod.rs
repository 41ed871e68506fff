//! Small flashes and the promise that crash tests of several files share.

// Each test uses a part.
#![allow(dead_code)]

use nvmem::device::{Contract, EraseUnit};
use powerfail::{Chip, SpiNor};

/// A flash of `ERASE`-byte units, small enough to be explored. Its words of `WORD` bytes may be
/// written once, or with `ONCE` false overwritten with zeros.
pub enum Small<const ERASE: u32, const WORD: u32, const PAGE: u32, const ONCE: bool> {}

impl<const ERASE: u32, const WORD: u32, const PAGE: u32, const ONCE: bool> Chip
    for Small<ERASE, WORD, PAGE, ONCE>
{
    const CONTRACT: Contract = Contract {
        erase: Some(EraseUnit {
            size: ERASE,
            erased: 0xFF,
            write_once: ONCE,
            endurance: 0,
        }),
        write_size: WORD,
        ..SpiNor::CONTRACT
    };
    const PAGE: u32 = PAGE;
}

/// Units of 128 bytes, words of 4 bytes, written once.
pub type Tiny = Small<128, 4, 32, true>;

/// As [`Tiny`], but words may be overwritten with zeros.
pub type TinyMultiwrite = Small<128, 4, 32, false>;

/// The number that the world has seen, and the highest that the device has begun to write since.
#[derive(Clone, Hash, Debug, Default)]
pub struct Promise {
    pub seen: u32,
    pub tried: u32,
}
