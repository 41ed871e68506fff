//! The operations without cuts or errors.

use super::*;
use crate::{Component, OpenError};
use nvmem::ram::RamFram;

type Ram = RamFram<4096>;

fn both(f: fn(bool)) {
    f(false);
    f(true);
}

fn ram() -> Ram {
    Ram::filled(0)
}

fn keeps<P: Promise>() {
    let mut fram = ram();
    let mut s = open::<_, P>(&mut fram, &CONFIG).unwrap();
    audit(&mut s, 0);
    let a = s.alloc_all(1, 10).unwrap();
    let run = s.alloc_all(3, 100).unwrap();
    assert_eq!((a, run), (2, 3));
    s.put_all(a, &[7; 10]).unwrap();
    for i in 0..3 {
        s.put_all(run + i, &[i as u8; 100]).unwrap();
    }
    s.put_all(1, &0b111100u32.to_le_bytes()).unwrap();
    if !P::SNAPSHOT {
        audit(&mut s, 0b111100);
    }
    save(&mut s);
    audit(&mut s, 0b111100);
    for round in 0..20 {
        s.put_all(a, &[round; 10]).unwrap();
        s.put_all(run + 1, &[round; 100]).unwrap();
        assert_eq!(s.get_all(a).unwrap(), [round; 10]);
        save(&mut s);
        audit(&mut s, 0b111100);
        s = open::<_, P>(&mut fram, &CONFIG).unwrap();
        audit(&mut s, 0b111100);
        assert_eq!(s.get_all(a).unwrap(), [round; 10]);
        assert_eq!(s.get_all(run + 1).unwrap(), [round; 100]);
        assert_eq!(s.get_all(run + 2).unwrap(), [2; 100]);
        assert_eq!(s.image.locate(run).map(|place| place.len), Ok(100));
    }
    s.put_all(1, &0b101100u32.to_le_bytes()).unwrap();
    s.free_all(4).unwrap();
    assert!(matches!(s.get_all(4), Err(Error::Damaged { object: 4 })));
    assert!(matches!(s.free_all(4), Err(Error::Damaged { object: 4 })));
    save(&mut s);
    audit(&mut s, 0b101100);
}

#[test]
fn what_was_saved_is_there_again() {
    both(|snapshot| {
        if snapshot {
            keeps::<Snapshot>()
        } else {
            keeps::<JustInTime>()
        }
    });
}

#[test]
fn running_is_interrupted() {
    let mut fram = ram();
    open::<_, JustInTime>(&mut fram, &CONFIG).unwrap();
    let mut s = open::<_, JustInTime>(&mut fram, &CONFIG).unwrap();
    s.put_all(1, &[0; 4]).unwrap();
    let e = open::<_, JustInTime>(&mut fram, &CONFIG).err().unwrap();
    assert_eq!(e, OpenError::Interrupted);
    let mut s = Store::<_, JustInTime>::formatted(&mut fram, &CONFIG, PRINT).unwrap();
    assert_eq!(s.alloc_all(1, 4), Ok(1));
    // It was not finished, so it begins again.
    open::<_, JustInTime>(&mut fram, &CONFIG).unwrap();
}

#[test]
fn a_commit_is_what_counts() {
    let mut fram = ram();
    let mut s = open::<_, Snapshot>(&mut fram, &CONFIG).unwrap();
    let a = s.alloc_all(1, 8).unwrap();
    s.put_all(a, &[1; 8]).unwrap();
    s.put_all(1, &4u32.to_le_bytes()).unwrap();
    s.commit_all().unwrap();
    s.put_all(a, &[2; 8]).unwrap();
    let b = s.alloc_all(1, 8).unwrap();
    s.put_all(b, &[3; 8]).unwrap();
    assert_eq!(s.get_all(a).unwrap(), [2; 8]);
    let mut s = open::<_, Snapshot>(&mut fram, &CONFIG).unwrap();
    assert_eq!(s.get_all(a).unwrap(), [1; 8]);
    assert!(s.get_all(b).is_err());
    audit(&mut s, 4);
}

/// Until its last byte is written, the previous record counts.
#[test]
fn a_record_counts_when_it_is_whole() {
    let mut fram = ram();
    let mut s = open::<_, JustInTime>(&mut fram, &CONFIG).unwrap();
    s.put_all(1, &[0; 4]).unwrap();
    s.set_persisted(0).unwrap();
    let before = *fram.bytes();
    Store::<_, JustInTime>::opened(&mut fram, &CONFIG, PRINT)
        .unwrap()
        .0
        .before_change()
        .unwrap();
    let after = *fram.bytes();
    let changed: Vec<usize> = (0..4096).filter(|i| before[*i] != after[*i]).collect();
    assert!(changed.len() > 4 && changed.len() <= 12);
    for n in 0..=changed.len() {
        let mut fram = ram();
        fram.bytes_mut().copy_from_slice(&before);
        for i in &changed[..n] {
            fram.bytes_mut()[*i] = after[*i];
        }
        let found = open::<_, JustInTime>(&mut fram, &CONFIG).err();
        let whole = n == changed.len();
        assert_eq!(found, whole.then_some(OpenError::Interrupted), "{n} bytes");
    }
}

/// What an update costs on the medium.
#[test]
fn bytes_per_write() {
    let mut fram = ram();
    let mut s = open::<_, JustInTime>(&mut fram, &CONFIG).unwrap();
    let a = s.alloc_all(1, 100).unwrap();
    let before = s.traffic().0;
    s.put_all(a, &[1; 100]).unwrap();
    assert_eq!(s.traffic().0 - before, 102, "content and check");
    let before = s.traffic().0;
    s.set_persisted(0).unwrap();
    assert_eq!(s.traffic().0 - before, 12);
    s.set_persisted(0).unwrap();
    assert_eq!(s.traffic().0 - before, 12, "nothing has changed");
    s.put_all(a, &[1; 100]).unwrap();
    assert_eq!(s.traffic().0 - before, 12 + 12 + 102);

    let mut fram = ram();
    let mut s = open::<_, Snapshot>(&mut fram, &CONFIG).unwrap();
    let a = s.alloc_all(1, 104).unwrap();
    s.put_all(a, &[1; 104]).unwrap();
    s.commit_all().unwrap();
    let before = s.traffic().0;
    s.put_all(a, &[2; 104]).unwrap();
    let first = s.traffic().0 - before;
    assert!(
        (104 + 8 + 2 + 2..=104 + 8 + 2 + 3).contains(&first),
        "{first}"
    );
    s.put_all(a, &[3; 104]).unwrap();
    assert_eq!(s.traffic().0 - before - first, 106, "in place from then on");
    let before = s.traffic().0;
    s.commit_all().unwrap();
    let commit = s.traffic().0 - before;
    assert!(
        (12 + 4 + 2 + 2..=12 + 4 + 2 + 3).contains(&commit),
        "{commit}"
    );
}

fn full<P: Promise>() {
    let mut fram = RamFram::<1024>::filled(0);
    let mut s = open::<_, P>(&mut fram, &CONFIG).unwrap();
    let (free, ids) = (s.free_bytes(), s.free_objects());
    // `Full` comes early (too little space), late (it is in pieces), and for lack of numbers.
    assert!(matches!(s.alloc_all(1, free as u16), Err(Error::Full)));
    assert!(matches!(
        s.alloc_all(5, (free / 5) as u16),
        Err(Error::Full)
    ));
    assert!(matches!(s.alloc_all(ids + 1, 0), Err(Error::Full)));
    assert!(matches!(s.alloc_all(0, 0), Err(Error::Full)));
    assert!(matches!(s.alloc_all(1, MAX_LEN + 1), Err(Error::Full)));
    assert_eq!((s.free_bytes(), s.free_objects()), (free, ids));
    let n = 5;
    let len = (free / 5 / 8 * 8 - 8) as u16;
    let base = s.alloc_all(n, len).unwrap();
    for i in 0..n {
        s.put_all(base + i, &std::vec![i as u8; usize::from(len)])
            .unwrap();
    }
    save(&mut s);
    s.free_all(base + 1).unwrap();
    s.free_all(base + 3).unwrap();
    s.put_all(1, &0b1010100u32.to_le_bytes()).unwrap();
    save(&mut s);
    audit(&mut s, 0b1010100);
    let (free, ids) = (s.free_bytes(), s.free_objects());
    // Three halves fit into two holes, by their count; not in one piece each.
    let fits = len / 2 + len / 4;
    assert!(free >= 2 * u32::from(fits));
    assert!(matches!(s.alloc_all(3, fits - 16), Err(Error::Full)) || fits < 60);
    assert_eq!(
        (s.free_bytes(), s.free_objects()),
        (free, ids),
        "all of it came back"
    );
    for (i, id) in [(0, base), (2, base + 2), (4, base + 4)] {
        assert_eq!(s.get_all(id).unwrap(), std::vec![i; usize::from(len)]);
    }
    let again = s.alloc_all(1, len).unwrap();
    s.put_all(again, &std::vec![9; usize::from(len)]).unwrap();
    assert_eq!(s.get_all(base).unwrap(), std::vec![0; usize::from(len)]);
}

#[test]
fn full_comes_early_and_loses_nothing() {
    full::<JustInTime>();
    full::<Snapshot>();
}

/// The last block of an epoch is freed at once; others when the commit has passed them.
#[test]
fn never_committed_objects_are_free_again() {
    let mut fram = ram();
    let mut s = open::<_, Snapshot>(&mut fram, &CONFIG).unwrap();
    let free = s.free_bytes();
    let a = s.alloc_all(1, 50).unwrap();
    let b = s.alloc_all(1, 60).unwrap();
    let c = s.alloc_all(1, 70).unwrap();
    s.free_all(b).unwrap();
    s.free_all(c).unwrap();
    s.free_all(a).unwrap();
    assert!(s.free_bytes() < free);
    let again = s.alloc_all(3, 20).unwrap();
    for i in 0..3 {
        s.put_all(again + i, &[1; 20]).unwrap();
    }
    s.put_all(1, &(0b111u32 << again).to_le_bytes()).unwrap();
    s.commit_all().unwrap();
    audit(&mut s, 0b111u32 << again);
}

/// A full medium can still free, and then commit.
#[test]
fn free_without_room_for_a_tombstone() {
    let mut fram = RamFram::<512>::filled(0);
    let mut s = open::<_, Snapshot>(&mut fram, &CONFIG).unwrap();
    let len = (s.free_bytes() - 8) as u16;
    let a = s.alloc_all(1, len - 40).unwrap();
    s.put_all(a, &std::vec![1; usize::from(len - 40)]).unwrap();
    let b = s.alloc_all(1, 8).unwrap();
    s.put_all(b, &[1; 8]).unwrap();
    s.put_all(1, &0b1100u32.to_le_bytes()).unwrap();
    s.commit_all().unwrap();
    // The rest goes to copies of the root and of `b`.
    s.put_all(1, &0b1000u32.to_le_bytes()).unwrap();
    while s.alloc_all(1, 0).is_ok() {}
    s.free_all(a).unwrap();
    assert!(s.state & SCAN != 0);
    s.commit_all().unwrap();
    let (root, freed) = (0b1000, len - 40);
    let mut s = open::<_, Snapshot>(&mut fram, &CONFIG).unwrap();
    audit(&mut s, root);
    assert!(s.free_bytes() > u32::from(freed));
    assert_eq!(s.get_all(b).unwrap(), [1; 8]);
}

#[test]
fn pins_come_back() {
    let mut fram = ram();
    let mut s = open::<_, JustInTime>(&mut fram, &CONFIG).unwrap();
    let pins = [(1, 8, 4, 63), (7, 0x1FFF, 0x4000, 2)].map(|(id, at, len, pins)| Pin {
        id,
        at,
        len,
        pins,
    });
    for (i, p) in pins.into_iter().enumerate() {
        s.write_pin(i as u16, p).unwrap();
    }
    assert_eq!(s.write_pin(2, pins[0]), Err(Fail::FULL));
    s.set_persisted(2).unwrap();
    let mut s = open::<_, JustInTime>(&mut fram, &CONFIG).unwrap();
    assert_eq!((s.pinned(), s.max_pins()), (2, 2));
    assert_eq!([s.read_pin(0), s.read_pin(1)], pins.map(Ok));
}

#[test]
fn what_is_not_ours_is_refused() {
    let mut fram = ram();
    open::<_, JustInTime>(&mut fram, &CONFIG).unwrap();
    let image = *fram.bytes();
    for (print, version) in [(PRINT, 0x0102), (PRINT + 1, 1)] {
        let e = if version == 1 {
            Store::<_, JustInTime>::opened(&mut fram, &CONFIG, print).err()
        } else {
            Store::<_, Snapshot>::opened(&mut fram, &CONFIG, print).err()
        };
        let Some(OpenError::LayoutMismatch(m)) = e else {
            panic!("{e:?}")
        };
        assert_eq!((m.stored.version, m.stored.fingerprint), (1, PRINT));
        assert_eq!(
            (m.expected.version, m.expected.fingerprint),
            (version, print)
        );
    }
    assert_eq!(fram.bytes(), &image, "nothing was written");
    let mut other = ram();
    other.bytes_mut()[1000] = 5;
    let e = open::<_, Snapshot>(&mut other, &CONFIG).err().unwrap();
    assert_eq!(e, OpenError::Foreign);
    let mut torn = ram();
    torn.bytes_mut()[..4].copy_from_slice(b"RLM1");
    torn.bytes_mut()[64..68].copy_from_slice(b"RLM1");
    let e = open::<_, Snapshot>(&mut torn, &CONFIG).err().unwrap();
    assert_eq!(e, OpenError::Damaged(Component::Header));
    let e = open::<_, Snapshot>(RamFram::<300>::filled(0), &CONFIG).err();
    let Some(OpenError::TooSmall { needed }) = e else {
        panic!("{e:?}")
    };
    assert!((301..400).contains(&needed));
    // The image of a larger one.
    let mut small = RamFram::<2048>::filled(0);
    small.bytes_mut().copy_from_slice(&image[..2048]);
    let e = open::<_, JustInTime>(&mut small, &CONFIG).err();
    assert!(matches!(e, Some(OpenError::TooSmall { needed }) if needed > 2048 && needed <= 4096));
}

/// The medium's sizes count, not those that this program asks for.
#[test]
fn an_old_heap_keeps_its_sizes() {
    let mut fram = ram();
    open::<_, JustInTime>(&mut fram, &CONFIG).unwrap();
    let other = Config {
        objects: 5000,
        max_pins: 9,
        ..CONFIG
    };
    let mut s = open::<_, JustInTime>(&mut fram, &other).unwrap();
    assert_eq!((s.objects(), s.max_pins()), (12, 2));
    audit(&mut s, 0);
}

/// As large as it gets: the last unit, a block of 16 KiB, an id beyond 255.
#[cfg_attr(miri, ignore = "half a megabyte")]
#[test]
fn large() {
    let mut fram = std::vec![0u8; 600 * 1024];
    struct Big<'v>(&'v mut [u8]);
    impl Medium for Big<'_> {
        type Error = ();
        const CONTRACT: nvmem::device::Contract = <RamFram<1> as Medium>::CONTRACT;
        fn capacity(&self) -> u32 {
            self.0.len() as u32
        }
        fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), ()> {
            buf.copy_from_slice(&self.0[at as usize..][..buf.len()]);
            Ok(())
        }
        fn write(&mut self, at: u32, b: &[u8]) -> Result<(), ()> {
            self.0[at as usize..][..b.len()].copy_from_slice(b);
            Ok(())
        }
        fn erase(&mut self, _: u32, _: u32) -> Result<(), ()> {
            Ok(())
        }
    }
    let config = Config {
        objects: 3000,
        ..CONFIG
    };
    let mut s = open::<_, Snapshot>(Big(&mut fram), &config).unwrap();
    assert_eq!(s.image.geometry().units, 0xFE00);
    let n = (s.free_bytes() / (16 * 1024 + 8)) as u16;
    let base = s.alloc_all(n, MAX_LEN).unwrap();
    let last = base + n - 1;
    s.put_all(last, &std::vec![5; usize::from(MAX_LEN)])
        .unwrap();
    let many = s.alloc_all(1000, 0).unwrap();
    assert_eq!(many, last + 1);
    s.commit_all().unwrap();
    let free = s.free_units;
    let (mut t, _) =
        Store::<_, Snapshot>::opened(s.image.replace(RamFram::<1>::filled(0)).0, &config, PRINT)
            .unwrap();
    let before = t.traffic().0;
    sweep(&mut t, |id| id <= many + 999).unwrap();
    assert_eq!((t.free_units, t.traffic().0), (free, before));
    assert_eq!(t.get_all(last).unwrap(), std::vec![5; usize::from(MAX_LEN)]);
    assert_eq!(u32::from(t.free_ids), 3000 - 1 - u32::from(n) - 1000);
}

/// The sequence number of a record wraps.
fn comes_round<P: Promise>() {
    let mut fram = ram();
    let mut s = open::<_, P>(&mut fram, &CONFIG).unwrap();
    s.put_all(1, &[0; 4]).unwrap();
    save(&mut s);
    // As if there had been so many before.
    let mut s = Store::<_, P>::opened(&mut fram, &CONFIG, PRINT).unwrap().0;
    let last = if P::SNAPSHOT {
        u32::MAX - 2
    } else {
        u32::MAX - 1
    };
    s.seq = last - 2;
    for state in [commit::RUNNING, commit::PERSISTED] {
        let state = if P::SNAPSHOT {
            commit::COMMITTED
        } else {
            state
        };
        s.put_record(state, 0).unwrap();
    }
    s.put_applied().unwrap();
    for i in 1..=8_u32 {
        let mut s = open::<_, P>(&mut fram, &CONFIG).unwrap();
        assert_eq!(s.get_all(1).unwrap(), ((i - 1) << 20).to_le_bytes());
        s.put_all(1, &(i << 20).to_le_bytes()).unwrap();
        save(&mut s);
        let rounds = if P::SNAPSHOT { 1 } else { 2 };
        assert_eq!(s.seq, last.wrapping_add(i * rounds));
    }
}

#[test]
fn a_number_comes_round() {
    comes_round::<JustInTime>();
    comes_round::<Snapshot>();
}
