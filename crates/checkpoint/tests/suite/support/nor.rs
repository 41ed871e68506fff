//! The contract of NOR flash: words may be written once and are unstable after a cut.

use checkpoint::nvmem::device::{Contract, EraseUnit, Torn};

/// Flash with words and erase units of these sizes.
pub const fn nor(name: &'static str, word: u32, erase: u32, erased: u8) -> Contract {
    Contract {
        name,
        read_size: 1,
        write_size: word,
        unit: 1,
        torn: Torn::Unstable,
        erase: Some(EraseUnit {
            size: erase,
            erased,
            write_once: true,
            endurance: 0,
        }),
    }
}
