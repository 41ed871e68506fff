//! The record without cuts: values, wear, errors, migration, hostile bytes. Cuts are in
//! `crash_record.rs`.

// `drop` says where a run ends.
#![allow(clippy::drop_non_drop)]

use core::cell::Cell;
use core::mem::MaybeUninit;
use nvmem::device::{Contract, Medium, Misuse};
use nvmem::ram::{RamFram, RamMram, RamNor};
use nvmem::{Buffered32, InOrder16, InOrder32, Persist, Record, RecordError, Region};

#[derive(Persist, Debug, Clone, Copy, PartialEq)]
#[repr(C)]
struct Settings {
    rate: u16,
    on: bool,
    limits: [u32; 3],
}

const FIRST: Settings = Settings {
    rate: 10,
    on: false,
    limits: [1, 2, 3],
};

fn nth(n: u16) -> Settings {
    Settings {
        rate: n,
        on: n.is_multiple_of(2),
        limits: [n.into(); 3],
    }
}

/// STM32L1: 256 bytes, erased to zeros, programmed in half pages of 128 bytes.
type L1 = RamNor<6, 256, 128, 0x00>;
/// STM32F0, MSPM0: small words.
type F0 = RamNor<3, 2048, 4>;
/// A serial flash with pages.
type Serial = RamNor<4, 4096, 256>;
/// A serial flash programmed in bytes.
type Bytewise = RamNor<3, 256, 1>;
/// An internal flash whose words may be overwritten with zeros.
type Multiwrite = RamNor<3, 1024, 8, 0xFF, false>;

fn life<D: Medium<Error: PartialEq>>(mut d: D) {
    let all = 0..d.capacity();
    assert_eq!(
        Record::<Settings, _>::read(&mut d, all.clone()).unwrap(),
        None
    );
    let r = Record::open(&mut d, all.clone(), FIRST).unwrap();
    assert_eq!(*r.get(), FIRST);
    drop(r);
    for round in 0..10 {
        let mut r = Record::open(&mut d, all.clone(), nth(9999)).unwrap();
        if round > 0 {
            assert_eq!(*r.get(), nth(round * 50 - 1), "{}", D::CONTRACT.name);
        }
        for n in 0..50 {
            r.set(nth(round * 50 + n)).unwrap();
            assert_eq!(*r.get(), nth(round * 50 + n));
        }
        drop(r);
        let read = Record::<Settings, _>::read(&mut d, all.clone()).unwrap();
        assert_eq!(read, Some(nth(round * 50 + 49)));
    }
}

fn on_region<M: nvmem::Model>() {
    for fill in [0u64, !0] {
        let mut words = [MaybeUninit::new(fill); 64];
        life::<Region<'_, M>>(Region::new(&mut words));
    }
}

#[test]
#[cfg_attr(miri, ignore = "13,000 changes")]
fn every_medium() {
    on_region::<InOrder16>();
    on_region::<InOrder32>();
    on_region::<Buffered32>();
    life(RamFram::<512>::filled(0));
    life(RamFram::<512>::filled(0xFF));
    life(RamMram::<512>::filled(0));
    life(L1::new());
    life(F0::new());
    life(Serial::new());
    life(Bytewise::new());
    life(Multiwrite::new());
}

#[test]
#[cfg_attr(miri, ignore = "six media, the largest of 16 KiB")]
fn the_smallest_range_is_enough() {
    fn check<D: Medium<Error: PartialEq>>(mut d: D) {
        let need = Record::<Settings, D>::bytes(1);
        let short = need - D::CONTRACT.erase_size().max(D::CONTRACT.write_size);
        let e = Record::open(&mut d, 0..short, FIRST).map(|_| ());
        assert_eq!(e, Err(RecordError::TooSmall { needed: need }));
        let mut r = Record::open(&mut d, 0..need, FIRST).unwrap();
        (0..20).for_each(|n| r.set(nth(n)).unwrap());
        drop(r);
        let r = Record::open(&mut d, 0..need, FIRST).unwrap();
        assert_eq!(*r.get(), nth(19));
    }
    check(RamFram::<512>::filled(0));
    check(RamMram::<512>::filled(0));
    check(L1::new());
    check(F0::new());
    check(Serial::new());
    check(Bytewise::new());
    check(Multiwrite::new());
}

#[test]
fn open_without_a_change_writes_nothing() {
    let mut d = F0::new();
    // A bank that reads as blank may hold something: the next two boots fill the other banks.
    for _ in 0..3 {
        Record::open(&mut d, 0..6144, FIRST).unwrap();
    }
    let before = d.clone();
    for _ in 0..5 {
        Record::open(&mut d, 0..6144, FIRST).unwrap();
    }
    assert_eq!(d, before);
}

#[test]
#[cfg_attr(miri, ignore = "1,400 changes")]
fn wear_is_what_is_promised() {
    let mut d = F0::new();
    let mut r = Record::open(&mut d, 0..6144, FIRST).unwrap();
    let per_erase = r.updates_per_erase();
    // 16 bytes of header, 16 of value, 4 of checksum; begin word, marker and confirmation of 4.
    assert_eq!(per_erase, 2048 / 48);
    for n in 0..(per_erase * 30) as u16 {
        r.set(nth(n)).unwrap();
    }
    drop(r);
    let wear = *d.wear();
    assert!(
        wear.iter().all(|w| (10..=12).contains(w)),
        "spread over the banks: {wear:?}"
    );
}

/// The erases of 1,000 boots that each change the value once.
fn erases_of_1000_boots<const WRITE_ONCE: bool>() -> u32 {
    let mut d = RamNor::<3, 4096, 4, 0xFF, WRITE_ONCE>::new();
    for n in 0..1000 {
        let mut r = Record::open(&mut d, 0..3 * 4096, FIRST).unwrap();
        assert_eq!(*r.get(), if n == 0 { FIRST } else { nth(n - 1) });
        r.set(nth(n)).unwrap();
    }
    d.wear().iter().sum()
}

#[test]
#[cfg_attr(miri, ignore = "2,000 boots")]
fn a_boot_appends_where_words_may_be_overwritten() {
    assert_eq!(erases_of_1000_boots::<false>(), 17);
    assert_eq!(erases_of_1000_boots::<true>(), 1003);
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of changes")]
fn a_worn_out_flash_is_an_error_and_the_old_value_stays() {
    let mut d = F0::new().endurance(3);
    let mut r = Record::open(&mut d, 0..6144, FIRST).unwrap();
    let mut n = 0;
    let e = loop {
        match r.set(nth(n)) {
            Ok(()) => n += 1,
            Err(e) => break e,
        }
    };
    assert_eq!(e, RecordError::Medium(Misuse::WornOut));
    assert!(n > 42 * 4, "{n}");
    assert_eq!(*r.get(), nth(n - 1));
    drop(r);
    let r = Record::open(&mut d, 0..6144, FIRST).unwrap();
    assert_eq!(*r.get(), nth(n - 1));
}

#[test]
fn cost_on_a_byte_medium() {
    let mut d = RamFram::<512>::filled(0);
    let mut r = Record::open(&mut d, 0..512, FIRST).unwrap();
    r.set(nth(1)).unwrap();
    let d = r.into_medium();
    let before = d.bytes_written();
    let mut r = Record::open(d, 0..512, FIRST).unwrap();
    r.set(nth(2)).unwrap();
    assert_eq!(d_written(r) - before, 16 + 16 + 4);
}

fn d_written(r: Record<Settings, &mut RamFram<512>>) -> u64 {
    r.into_medium().bytes_written()
}

#[test]
fn a_record_of_another_type_is_refused_and_unchanged() {
    let mut d = RamFram::<512>::filled(0);
    Record::open(&mut d, 0..512, FIRST).unwrap();
    let before = d.clone();
    let e = Record::open(&mut d, 0..512, 7u32).map(|_| ()).unwrap_err();
    let RecordError::Layout(m) = e else {
        panic!("{e:?}")
    };
    assert_eq!(m.stored.fingerprint, nvmem::fingerprint::<Settings>());
    assert_eq!(m.expected.fingerprint, nvmem::fingerprint::<u32>());
    assert!(e.to_string().contains("another library") || e.to_string().contains("other types"));
    assert!(matches!(
        Record::<u32, _>::read(&mut d, 0..512),
        Err(RecordError::Layout(_))
    ));
    assert_eq!(d, before);
}

#[test]
fn a_record_of_the_older_format_is_refused_by_name() {
    fn refused<D: Medium<Error: PartialEq> + Clone + PartialEq + core::fmt::Debug>(mut d: D) {
        let (before, all) = (d.clone(), 0..d.capacity());
        let e = Record::open(&mut d, all, FIRST).map(|_| ()).unwrap_err();
        let RecordError::Layout(m) = e else {
            panic!("{e:?}")
        };
        assert_eq!((m.stored.version, m.expected.version), (1, 2));
        assert_eq!(m.stored.fingerprint, 0x0807_0605_0403_0201);
        assert!(e.to_string().contains("another version of the format"));
        assert_eq!(d, before);
    }
    // Both begin the slot with its header.
    let slot = *b"RLR1\x02\0\x10\0\x01\x02\x03\x04\x05\x06\x07\x08";
    let mut fram = RamFram::<512>::filled(0);
    fram.bytes_mut()[..16].copy_from_slice(&slot);
    refused(fram);
    let mut flash = F0::new();
    flash.bytes_mut()[2048..2064].copy_from_slice(&slot);
    refused(flash);
}

#[derive(Persist, Debug, Clone, Copy, PartialEq)]
#[repr(C)]
struct SettingsV2 {
    rate: u32,
    limits: [u32; 5],
    on: bool,
}

fn upgrade(old: Settings) -> SettingsV2 {
    let [a, b, c] = old.limits;
    SettingsV2 {
        rate: old.rate.into(),
        limits: [a, b, c, 4, 5],
        on: old.on,
    }
}

const UNUSED: SettingsV2 = SettingsV2 {
    rate: 0,
    limits: [0; 5],
    on: false,
};

#[test]
#[cfg_attr(miri, ignore = "800 changes")]
fn migration() {
    fn check<D: Medium<Error: PartialEq>>(mut d: D) {
        let all = 0..d.capacity();
        let mut r = Record::open(&mut d, all.clone(), FIRST).unwrap();
        (0..70).for_each(|n| r.set(nth(n)).unwrap());
        drop(r);
        let r = Record::open_or_migrate(&mut d, all.clone(), UNUSED, upgrade).unwrap();
        assert_eq!(*r.get(), upgrade(nth(69)));
        drop(r);
        let mut again =
            Record::open_or_migrate(&mut d, all.clone(), UNUSED, |_: Settings| panic!("twice"))
                .unwrap();
        (0..70u32).for_each(|n| again.set(SettingsV2 { rate: n, ..UNUSED }).unwrap());
        drop(again);
        let r = Record::open(&mut d, all.clone(), UNUSED).unwrap();
        assert_eq!(r.get().rate, 69);
        drop(r);
        // A record of neither type is refused.
        let e = Record::open_or_migrate(&mut d, all.clone(), 0u64, |old: u32| old.into());
        assert!(matches!(e.map(|_| ()), Err(RecordError::Layout(_))));
    }
    check(RamFram::<512>::filled(0));
    check(RamMram::<512>::filled(0xFF));
    check(L1::new());
    check(F0::new());
    check(Serial::new());
    check(Bytewise::new());
    check(Multiwrite::new());
}

#[test]
#[cfg_attr(miri, ignore = "looks at 400 KiB byte by byte")]
fn foreign_is_never_formatted() {
    fn refused<D: Medium<Error: PartialEq> + Clone + PartialEq + core::fmt::Debug>(mut d: D) {
        let before = d.clone();
        let e = Record::open(&mut d, 0..before.capacity(), FIRST).map(|_| ());
        assert_eq!(e, Err(RecordError::Foreign));
        assert_eq!(d, before);
    }
    for at in (0..400).step_by(7) {
        let mut d = RamFram::<512>::filled(0);
        d.bytes_mut()[at] = 1;
        refused(d);
    }
    for at in (0..4096).step_by(61) {
        let mut d = F0::new();
        d.bytes_mut()[at] = 1;
        refused(d);
    }
    // Zeros are not the erased value of this flash.
    let mut d = F0::new();
    d.bytes_mut().fill(0);
    refused(d);
}

#[test]
#[cfg_attr(miri, ignore = "3,000 images")]
fn bit_rot_gives_the_older_value_or_an_error() {
    let mut good = RamFram::<128>::filled(0);
    let mut r = Record::open(&mut good, 0..128, FIRST).unwrap();
    r.set(nth(1)).unwrap();
    drop(r);
    for bit in 0..128 * 8 {
        let mut d = good.clone();
        d.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
        let v = Record::<Settings, _>::read(&mut d, 0..128)
            .unwrap()
            .unwrap();
        assert!(v == FIRST || v == nth(1), "{bit}: {v:?}");
        for other in [5, 70] {
            let mut d = d.clone();
            d.bytes_mut()[other] ^= 1;
            // One bit in each slot, or both in one slot, perhaps the same bit.
            match Record::<Settings, _>::read(&mut d, 0..128) {
                Ok(Some(v)) => assert!(v == FIRST || v == nth(1)),
                Ok(None) => panic!("a damaged range is not blank"),
                Err(e) => assert_eq!(e, RecordError::Damaged),
            }
        }
    }
}

#[test]
fn two_bad_slots_in_the_newest_bank_are_damage() {
    let mut d = F0::new();
    let mut r = Record::open(&mut d, 0..6144, FIRST).unwrap();
    (0..5).for_each(|n| r.set(nth(n)).unwrap());
    drop(r);
    // Slots 4 and 5 of bank 0; the value begins after the begin word and 16 bytes of header.
    d.bytes_mut()[4 * 48 + 21] ^= 1;
    d.bytes_mut()[5 * 48 + 21] ^= 1;
    let e = Record::open(&mut d, 0..6144, FIRST).map(|_| ());
    assert_eq!(e, Err(RecordError::Damaged));
}

/// A cut erase may leave any bytes in an older bank, also a sequence number that seems newer.
#[test]
fn a_bad_slot_in_an_older_bank_is_no_damage() {
    let mut good = F0::new();
    let mut r = Record::open(&mut good, 0..6144, FIRST).unwrap();
    let slots = r.updates_per_erase() as u16;
    (0..slots + 8).for_each(|n| r.set(nth(n)).unwrap());
    drop(r);
    for bit in 0..48 * 8 {
        let mut d = good.clone();
        d.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
        for _ in 0..2 {
            let r = Record::open(&mut d, 0..6144, FIRST).unwrap();
            assert_eq!(*r.get(), nth(slots + 7), "{bit}");
        }
    }
}

#[test]
fn an_invalid_value_is_damage() {
    let mut d = RamFram::<512>::filled(0);
    let mut r = Record::open(&mut d, 0..512, FIRST).unwrap();
    r.set(nth(1)).unwrap();
    drop(r);
    // The `bool` of each slot becomes 2, with a correct checksum.
    let image = d.bytes_mut();
    for at in [0, 256] {
        image[at + 18] = 2;
        let crc = nvmem::crc::crc32(&image[at..at + 32]);
        image[at + 32..at + 36].copy_from_slice(&crc.to_le_bytes());
    }
    let e = Record::<Settings, _>::read(&mut d, 0..512);
    assert_eq!(e, Err(RecordError::Damaged));
}

#[test]
fn ranges_are_checked() {
    let mut d = F0::new();
    for bad in [0..6145, 4..6144, 2047..4096, 7000..8000] {
        let e = Record::open(&mut d, bad.clone(), FIRST).map(|_| ());
        assert_eq!(e, Err(RecordError::BadRange), "{bad:?}");
    }
    let e = Record::open(&mut d, 2048..6144, FIRST).map(|_| ());
    assert_eq!(e, Err(RecordError::TooSmall { needed: 6144 }));
}

/// A medium that fails at the n-th write or erase.
struct Failing<'a, D> {
    d: D,
    left: &'a Cell<u32>,
}

impl<D> Failing<'_, D> {
    fn spend(&self) -> Option<()> {
        self.left.set(self.left.get().checked_sub(1)?);
        Some(())
    }
}

impl<D: Medium> Medium for Failing<'_, D> {
    type Error = Option<D::Error>;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.d.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Self::Error> {
        self.d.read(at, buf).map_err(Some)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        self.spend().ok_or(None)?;
        self.d.write(at, bytes).map_err(Some)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
        self.spend().ok_or(None)?;
        self.d.erase(from, to).map_err(Some)
    }
}

#[test]
#[cfg_attr(miri, ignore = "200 media")]
fn an_error_in_a_write_loses_nothing() {
    fn check<D: Medium<Error: PartialEq>>(make: impl Fn() -> D) {
        let all = 0..make().capacity();
        for left in 0..40 {
            let budget = Cell::new(left);
            let mut f = Failing {
                d: make(),
                left: &budget,
            };
            let Ok(mut r) = Record::open(&mut f, all.clone(), FIRST) else {
                budget.set(u32::MAX);
                let r = Record::open(&mut f, all.clone(), FIRST).unwrap();
                assert_eq!(*r.get(), FIRST);
                continue;
            };
            let mut n = 0;
            while r.set(nth(n)).is_ok() {
                n += 1;
            }
            let value = *r.get();
            drop(r);
            budget.set(u32::MAX);
            let r = Record::open(&mut f, all.clone(), FIRST).unwrap();
            let found = *r.get();
            assert!(found == value || found == nth(n), "{left}: {found:?}");
        }
    }
    check(|| RamFram::<512>::filled(0));
    check(|| RamMram::<512>::filled(0));
    check(F0::new);
    check(L1::new);
    check(Serial::new);
    check(Multiwrite::new);
}

#[test]
#[cfg_attr(miri, ignore = "5,000 changes")]
fn writing_goes_on_after_an_error() {
    for left in 8..60 {
        let budget = Cell::new(left);
        let mut f = Failing {
            d: F0::new(),
            left: &budget,
        };
        let Ok(mut r) = Record::open(&mut f, 0..6144, FIRST) else {
            continue;
        };
        let mut n = 0;
        while r.set(nth(n)).is_ok() {
            n += 1;
        }
        budget.set(u32::MAX);
        (100..200).for_each(|n| r.set(nth(n)).unwrap());
        drop(r);
        let r = Record::open(&mut f, 0..6144, FIRST).unwrap();
        assert_eq!(*r.get(), nth(199));
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_open_or_are_refused(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 768), magics: [bool; 6]) {
        let mut d = Bytewise::new();
        d.bytes_mut().copy_from_slice(&bytes);
        for (i, m) in magics.into_iter().enumerate() {
            if m { d.bytes_mut()[i * 128 + 4..][..4].copy_from_slice(b"RLR2") }
        }
        let before = d.clone();
        let e = Record::open(&mut d, 0..768, FIRST).map(|_| ());
        let any = magics[0] || magics[2] || magics[4];
        proptest::prop_assert_eq!(e, Err(if any { RecordError::Damaged } else { RecordError::Foreign }));
        proptest::prop_assert_eq!(d, before);
    }

    #[test]
    fn the_last_value_wins(values: Vec<u16>, reboots in 1usize..9) {
        let mut d = Bytewise::new();
        let mut last = FIRST;
        for chunk in values.chunks(reboots) {
            let mut r = Record::open(&mut d, 0..768, FIRST).unwrap();
            proptest::prop_assert_eq!(*r.get(), last);
            for v in chunk {
                last = nth(*v);
                r.set(last).unwrap();
            }
        }
    }
}
