//! Chips, and the configurations of their mirrors.

use nv_mirror::{Config, Durability};
use nv_replay::nvmem::device::{Contract, EraseUnit, Torn};
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

/// As an STM32F0: words of 2 bytes.
pub type Bytes2 = Small<2048, 2, 0xFF>;
/// Words of 32 bytes, as an STM32H7.
pub type Bytes32 = Small<2048, 32, 0xFF>;
/// As an STM32L1 by half pages: words of 128 bytes, erased to zero.
pub type HalfPages = Small<2304, 128, 0x00>;

/// `segments` segments, saved as `durability` says.
pub const fn config(segments: u8, durability: Durability) -> Config {
    Config {
        segments,
        durability,
    }
}
