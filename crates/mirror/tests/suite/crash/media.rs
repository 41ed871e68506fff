//! Chips of the campaigns, and an image of a used one.

use crate::crash::program::{MEMORY, look, open_pool, step};
use nv_mirror::{Config, Mirror};
use nvmem::crc::{Crc32, crc32};
use nvmem::device::{Contract, EraseUnit, Medium, Torn};
use nvmem::marker::Marker;
use nvmem::ram::RamNor;
use powerfail::Chip;

/// A flash of `ERASE`-byte units and words of `WORD` bytes, small enough to be explored. With
/// `ONCE`, a word is programmed once after an erase.
pub enum Small<const ERASE: u32, const WORD: u32, const ERASED: u8, const ONCE: bool = true> {}

impl<const ERASE: u32, const WORD: u32, const ERASED: u8, const ONCE: bool> Chip
    for Small<ERASE, WORD, ERASED, ONCE>
{
    const CONTRACT: Contract = Contract {
        name: "small-flash",
        read_size: 1,
        write_size: WORD,
        unit: 1,
        torn: Torn::Unstable,
        erase: Some(EraseUnit {
            size: ERASE,
            erased: ERASED,
            write_once: ONCE,
            endurance: 0,
        }),
    };
}

/// As an STM32F0: words of 2 bytes.
pub type Bytes2 = Small<1024, 2, 0xFF>;
/// As an nRF52: words of 4 bytes.
pub type Bytes4 = Small<1024, 4, 0xFF>;
/// The same, whose words may be programmed more than once, as those of serial NOR flash.
pub type Again4 = Small<1024, 4, 0xFF, false>;
/// Words of 32 bytes, as an STM32H7.
pub type Bytes32 = Small<1024, 32, 0xFF>;
/// As an STM32L1 by half pages: words of 128 bytes, erased to zero.
pub type HalfPages = Small<1536, 128, 0x00>;
/// Words of 256 bytes, the longest there are.
pub type Pages = Small<2048, 256, 0xFF>;

/// What another program has left: no two bytes in a row are those of a format of Relume.
pub fn other_data(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 37 % 256) as u8 | 1).collect()
}

/// Half pages whose three segments were all written, by boots that began with this number.
pub fn used(number: u32) -> Vec<u8> {
    let config = Config {
        segments: 3,
        ..Config::DEFAULT
    };
    let mut nv = RamNor::<3, 1536, 128, 0x00>::new();
    numbered(&mut nv, number);
    for n in 1..=4 {
        let mut memory = MEMORY;
        let (mut mirror, region) =
            Mirror::open(&mut nv, 0..3 * 1536, &config, &mut memory).unwrap();
        let mut pool = open_pool(region);
        if n > 1 {
            step(&mut pool);
        }
        mirror.durable(&mut pool).unwrap();
        assert_eq!(look(&mut pool), n - 1);
    }
    nv.bytes().to_vec()
}

/// Writes the last of three segments with this number and an image of zeros, as docs/SPEC.md says.
fn numbered<D: Medium>(nv: &mut D, number: u32) {
    let at = 2 * 1536;
    let mut header = [0; 128];
    let words = [0x3149_4C52, number, 416, 1536, 3 | 128 << 16];
    for (to, w) in header.chunks_mut(4).zip(words) {
        to.copy_from_slice(&u32::to_le_bytes(w));
    }
    let crc = crc32(&header[..20]);
    header[20..24].copy_from_slice(&crc.to_le_bytes());
    nv.write(at, &header).unwrap();
    let mut base = [0; 128];
    let check = Crc32::new().word(crc).word(0).finish();
    base[4..8].copy_from_slice(&check.to_le_bytes());
    nv.write(at + 3 * 128, &base).unwrap();
    let marker = Marker {
        at: at + 128,
        checksum: crc,
    };
    marker.write(nv).unwrap();
}
