//! The commit marker of flash formats: each state of its words, on words of each size, and under
//! power cuts with unstable words.

use nvmem::device::{Contract, EraseUnit, Medium, Torn};
use nvmem::marker::{Marker, Progress, all_bytes_are, is_blank, kill, marker_size, read};
use nvmem::ram::RamNor;
use nvmem::sequence::{is_newer, is_newer_16};
use powerfail::{Chip, Simulated, SpiNor, World, explore};

#[test]
fn sequence_numbers_wrap() {
    for n in [0, 1, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF] {
        assert!(!is_newer_16(n, n));
        assert!(is_newer_16(n.wrapping_add(1), n));
        assert!(!is_newer_16(n, n.wrapping_add(1)));
        assert!(is_newer_16(n.wrapping_add(0x7FFF), n));
    }
    for n in [0, 1, 0x7FFF_FFFF, 0x8000_0000, u32::MAX] {
        assert!(!is_newer(n, n));
        assert!(is_newer(n.wrapping_add(1), n) && !is_newer(n, n.wrapping_add(1)));
        assert!(is_newer(n.wrapping_add(0x7FFF_FFFF), n));
    }
}

#[test]
fn no_checksum_gives_a_blank_or_killed_word() {
    for checksum in [
        0,
        u32::MAX,
        0x5A3C_96A5,
        !0x5A3C_96A5,
        0x25C3_695A,
        0xDA3C_96A5,
    ] {
        let m = Marker { at: 0, checksum };
        let words = [m.word(0), m.word(1)];
        assert_ne!(words[0], words[1]);
        for w in words {
            assert!(w != [0; 4] && w != [0xFF; 4], "{checksum:08x}");
        }
    }
}

/// Every state, in the order of writing.
fn states<const WORD: usize, const ERASED: u8>() {
    type Flash<const WORD: usize, const ERASED: u8> = RamNor<1, 1024, WORD, ERASED, false>;
    let mut d = Flash::<WORD, ERASED>::new();
    let contract = Flash::<WORD, ERASED>::CONTRACT;
    assert!(contract.overwrites());
    let size = marker_size(&contract);
    assert_eq!(size as usize, WORD.max(4));
    let m = Marker {
        at: 2 * size,
        checksum: 0x1234_5678,
    };
    let other = Marker {
        checksum: 0x1234_5679 ^ 2,
        ..m
    };
    assert_eq!(m.progress(&mut d), Ok(Progress::Blank));
    assert_eq!(is_blank(&mut d, m.at), Ok(true));
    m.write_word(&mut d, 0).unwrap();
    assert_eq!(m.progress(&mut d), Ok(Progress::Marked));
    assert_eq!(other.progress(&mut d), Ok(Progress::Begun));
    m.write_word(&mut d, 1).unwrap();
    assert_eq!(m.progress(&mut d), Ok(Progress::Confirmed));
    // One changed byte in each of the words.
    for (byte, left) in [(m.at, Progress::Begun), (m.at + size + 3, Progress::Marked)] {
        let mut d = d.clone();
        d.bytes_mut()[byte as usize] ^= 0x10;
        assert_eq!(m.progress(&mut d), Ok(left));
    }
    // A word whose last byte only was programmed.
    let mut torn = Flash::<WORD, ERASED>::new();
    torn.bytes_mut()[(m.at + size - 1) as usize] ^= 0x10;
    assert_eq!(m.progress(&mut torn), Ok(Progress::Begun));
    // A killed word, again after it was cut.
    for word in 0..2 {
        let mut d = d.clone();
        kill(&mut d, m.at + word * size).unwrap();
        kill(&mut d, m.at + word * size).unwrap();
        assert_eq!(m.progress(&mut d), Ok(Progress::Killed));
    }
    let end = d.capacity();
    assert_eq!(all_bytes_are(&mut d, 0, m.at, ERASED), Ok(true));
    assert_eq!(all_bytes_are(&mut d, 0, m.at + 1, ERASED), Ok(false));
    assert_eq!(
        all_bytes_are(&mut d, m.at + 2 * size, end, ERASED),
        Ok(true)
    );
}

#[test]
fn each_state_of_the_words() {
    states::<1, 0xFF>();
    states::<2, 0xFF>();
    states::<4, 0x00>();
    states::<8, 0xFF>();
    states::<128, 0x00>();
    states::<256, 0xFF>();
}

/// A medium that is read in groups of 12 bytes.
struct Coarse([u8; 1200]);

impl Medium for Coarse {
    type Error = ();
    const CONTRACT: Contract = Contract {
        name: "coarse",
        read_size: 12,
        write_size: 4,
        unit: 1,
        torn: Torn::Unstable,
        erase: Some(EraseUnit {
            size: 120,
            erased: 0xFF,
            write_once: true,
            endurance: 0,
        }),
    };
    fn capacity(&self) -> u32 {
        1200
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), ()> {
        assert!(at.is_multiple_of(12) && buf.len().is_multiple_of(12));
        buf.copy_from_slice(&self.0[at as usize..][..buf.len()]);
        Ok(())
    }
    fn write(&mut self, _: u32, _: &[u8]) -> Result<(), ()> {
        unreachable!()
    }
    fn erase(&mut self, _: u32, _: u32) -> Result<(), ()> {
        unreachable!()
    }
}

#[test]
fn any_bytes_are_read_in_whole_groups() {
    let mut d = Coarse(core::array::from_fn(|i| (i % 251) as u8));
    for at in 0..30 {
        for len in [0, 1, 11, 12, 13, 250, 256, 600] {
            let mut out = vec![0; len];
            read(&mut d, at, &mut out).unwrap();
            assert_eq!(out, d.0[at as usize..][..len]);
        }
    }
    d.0[5..700].fill(7);
    assert_eq!(all_bytes_are(&mut d, 5, 700, 7), Ok(true));
    assert_eq!(all_bytes_are(&mut d, 4, 700, 7), Ok(false));
    assert_eq!(all_bytes_are(&mut d, 5, 701, 7), Ok(false));
}

/// A serial flash whose words may be overwritten with zeros.
enum Tiny {}
impl Chip for Tiny {
    const CONTRACT: Contract = Contract {
        erase: Some(EraseUnit {
            size: 64,
            erased: 0xFF,
            write_once: false,
            endurance: 0,
        }),
        write_size: 4,
        ..SpiNor::CONTRACT
    };
}

/// What the device has relied on.
#[derive(Clone, Copy, Hash, Debug, Default, PartialEq)]
enum Relied {
    #[default]
    Nothing,
    /// The marker was confirmed: it reads at least as marked from here on.
    Confirmed,
    /// The kill has returned: the slot never counts again.
    Killed,
}

/// A device that acts on a confirmed slot and kills one in doubt. The word at 4 says that the slot
/// is begun. It is only ever killed, so it can be written where it reads as blank but may be
/// unstable.
fn mark_or_kill<D: Medium>(mut nv: D, world: &World<'_, Relied>) {
    let m = Marker {
        at: 8,
        checksum: 0xC0DE_CAFE,
    };
    let progress = m.progress(&mut nv).expect("it reads");
    match world.get() {
        Relied::Confirmed => return assert!(progress >= Progress::Marked, "{progress:?}"),
        Relied::Killed => return assert_eq!(progress, Progress::Killed),
        Relied::Nothing => {}
    }
    match progress {
        Progress::Confirmed => world.set(Relied::Confirmed),
        Progress::Blank if is_blank(&mut nv, 4).expect("it reads") => {
            kill(&mut nv, 4).expect("only a power cut stops it");
            m.write(&mut nv).expect("only a power cut stops it");
            assert_eq!(m.progress(&mut nv).expect("it reads"), Progress::Confirmed);
            world.set(Relied::Confirmed);
        }
        _ => {
            // The first word may be unstable too.
            kill(&mut nv, 4).expect("only a power cut stops it");
            kill(&mut nv, m.at).expect("only a power cut stops it");
            world.set(Relied::Killed);
        }
    }
}

#[test]
fn what_a_boot_relied_on_stays() {
    let s = explore(Simulated::<Tiny>::new(64), |nv, w| mark_or_kill(nv, w))
        .depth(3)
        .run();
    println!("{s}");
    assert!(s.partial || s.cuts > 100, "{s}");
}
