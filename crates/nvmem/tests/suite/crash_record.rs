//! The record under power cuts, two deep: on every mapped model, byte media, media of 16-byte
//! words, and flash with unstable words.

use crate::support::{Promise, Small, TinyMultiwrite};
use crate::turns::in_turn;
use nvmem::device::Medium;
use nvmem::ram::RamNor;
use nvmem::{Buffered32, InOrder16, InOrder32, Model, Persist, Record, RecordError};
use powerfail::{
    Chip, Mapped, Mram16, Simulated, SpiFram, SpiNor, Stm32f0, Stm32l1, Stm32l1HalfPage, World,
    explore,
};

#[derive(Persist, Debug, Clone, Copy, PartialEq)]
#[repr(C)]
struct Counter {
    n: u32,
    low: u8,
    twice: u16,
}

fn counter(n: u32) -> Counter {
    Counter {
        n,
        low: n as u8,
        twice: (2 * n) as u16,
    }
}

fn look(world: &World<'_, Promise>, found: Counter) -> u32 {
    let n = found.n;
    assert_eq!(found, counter(n), "a mixture");
    let p = world.get();
    assert!(
        n == p.seen || n == p.tried,
        "{n} is there, {} was seen, {} tried",
        p.seen,
        p.tried
    );
    // The device acts on this value: from here on it must not revert.
    world.set(Promise { seen: n, tried: n });
    n
}

/// Counts up to three.
fn count<D: Medium>(nv: D, world: &World<'_, Promise>) {
    count_to(nv, world, 3)
}

fn count_to<D: Medium>(mut nv: D, world: &World<'_, Promise>, last: u32) {
    let all = 0..nv.capacity();
    // Reading writes nothing, and the device does not act on the value.
    let read = Record::<Counter, _>::read(&mut nv, all.clone());
    assert!(read.is_ok(), "{read:?}");
    let mut r = Record::open(nv, all, counter(0)).expect("only a power cut stops it");
    let n = look(world, *r.get());
    for n in n..last {
        world.update(|p| p.tried = n + 1);
        r.set(counter(n + 1)).expect("only a power cut stops it");
        assert_eq!(look(world, *r.get()), n + 1);
    }
}

#[derive(Persist, Debug, Clone, Copy, PartialEq)]
#[repr(C)]
struct Wide {
    n: u32,
    more: [u32; 4],
}

/// Format by an old program, an update of the program, one change.
fn migrate<D: Medium>(mut nv: D, world: &World<'_, Promise>) {
    let all = 0..nv.capacity();
    if world.with(|p| p.tried) == 0 {
        let r = Record::open(&mut nv, all.clone(), counter(7)).expect("only a power cut stops it");
        assert_eq!(*r.get(), counter(7));
        world.update(|p| p.tried = 1);
    }
    let wide = |n| Wide { n, more: [n; 4] };
    let mut r = Record::open_or_migrate(&mut nv, all.clone(), wide(99), |old: Counter| {
        assert_eq!(old, counter(7));
        wide(1)
    })
    .expect("only a power cut stops it");
    let found = *r.get();
    assert_eq!(found, wide(found.n), "a mixture");
    assert!((1..=2).contains(&found.n), "{found:?}");
    assert!(found.n >= world.with(|p| p.seen), "the value reverted");
    world.update(|p| p.seen = found.n);
    r.set(wide(2)).expect("only a power cut stops it");
    world.update(|p| p.seen = 2);
}

/// An image with two slots of an old device, whose sequence number is about to wrap.
fn aged(sequence: u16, fill: u8) -> Vec<u8> {
    let mut image = vec![fill; 128];
    let fingerprint = nvmem::fingerprint::<Counter>();
    for (at, sequence, n) in [(0, sequence.wrapping_sub(1), 0xFFFF), (64, sequence, 0u32)] {
        let slot = &mut image[at..at + 28];
        slot[..4].copy_from_slice(b"RLR2");
        slot[4..6].copy_from_slice(&sequence.to_le_bytes());
        slot[6..8].copy_from_slice(&8u16.to_le_bytes());
        slot[8..16].copy_from_slice(&fingerprint.to_le_bytes());
        slot[16..20].copy_from_slice(&n.to_le_bytes());
        slot[20..24].copy_from_slice(&[n as u8, 0, (2 * n) as u8, (n >> 7) as u8]);
        let crc = nvmem::crc::crc32(&slot[..24]);
        slot[24..].copy_from_slice(&crc.to_le_bytes());
    }
    image
}

/// Sequence numbers around a wrap; fewer under Miri.
fn sequences() -> impl Iterator<Item = u16> {
    let all = [0, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF];
    all.into_iter().step_by(if cfg!(miri) { 4 } else { 1 })
}

fn mapped<M: Model>() {
    for fill in [0x00, 0xFF] {
        let blank = || Mapped::<M>::with_image(vec![fill; 128]);
        let s = explore(blank(), |nv, w| count(nv, w))
            .depth(2)
            .max_depth(3)
            .run();
        assert!(s.partial || s.cuts > 100, "{s}");
        let s = explore(blank(), |nv, w| migrate(nv, w))
            .depth(2)
            .max_depth(3)
            .run();
        assert!(s.partial || s.cuts > 100, "{s}");
    }
    for sequence in sequences() {
        let aged = Mapped::<M>::with_image(aged(sequence, 0));
        let s = explore(aged, |nv, w| count(nv, w))
            .depth(2)
            .max_depth(3)
            .run();
        assert!(s.partial || s.cuts > 50, "{s}");
    }
}

#[test]
fn in_order_16() {
    mapped::<InOrder16>();
}

#[test]
fn in_order_32() {
    mapped::<InOrder32>();
}

#[test]
fn buffered_32() {
    mapped::<Buffered32>();
}

/// One change on used flash, three cuts deep: a torn record, a torn rewrite of it, a torn erase.
#[test]
#[cfg_attr(miri, ignore = "2,304 bytes of flash, three cuts deep")]
fn used_flash_three_deep() {
    let mut d = RamNor::<6, 256, 128, 0x00>::new();
    for n in [7, 0] {
        let mut r = Record::open(&mut d, 0..1536, counter(9)).unwrap();
        r.set(counter(n)).unwrap();
    }
    let used = Simulated::<Stm32l1HalfPage>::with_image(d.bytes().to_vec());
    let s = explore(used, |nv, w| count_to(nv, w, 1)).depth(3).run();
    println!("{s}");
    assert!(s.partial || s.cuts > 1000, "{s}");
}

/// Two changes, three cuts. The first cut tears a commit word of the first change; a boot reads it
/// as written and acts on the value. The second tears the content of the second change, which the
/// next boot reads as complete. The third hits the erase that this boot begins, which must not
/// erase the first change.
#[test]
#[cfg_attr(miri, ignore = "three cuts deep")]
fn an_unstable_commit_word() {
    let mut d = RamNor::<3, 96, 16, 0xFF>::new();
    let _ = Record::open(&mut d, 0..288, counter(0)).unwrap();
    let used = Simulated::<OneSlot>::with_image(d.bytes().to_vec());
    let s = explore(used, move |nv, w: &World<'_, Promise>| {
        // Without a read before: each read changes how an unstable word reads next.
        let mut r = Record::open(nv, 0..288, counter(0)).expect("only a power cut stops it");
        for n in look(w, *r.get())..2 {
            w.update(|p| p.tried = n + 1);
            r.set(counter(n + 1)).expect("only a power cut stops it");
            assert_eq!(look(w, *r.get()), n + 1);
        }
    })
    .depth(3)
    .run();
    println!("{s}");
    assert!(s.partial || s.cuts > 1000, "{s}");
}

/// A flash with erase units that hold one record and few words more.
type OneSlot = Small<96, 16, 16, true>;

/// A serial flash small enough to be explored two deep.
type Bytewise = Small<64, 1, 64, true>;

/// Counts and migrates, at most so many cuts deep each.
fn device<C: Chip>(size: usize, fill: u8, [counts, migrates]: [u32; 2]) {
    let blank = || Simulated::<C>::with_image(vec![fill; size]);
    let s = explore(blank(), |nv, w| count(nv, w))
        .depth(2)
        .max_depth(counts)
        .run();
    println!("{}: {s}", C::CONTRACT.name);
    assert!(s.partial || s.cuts > 100, "{s}");
    let s = explore(blank(), |nv, w| migrate(nv, w))
        .depth(2)
        .max_depth(migrates)
        .run();
    println!("{}: {s}", C::CONTRACT.name);
    assert!(s.partial || s.cuts > 100, "{s}");
}

#[test]
fn serial_fram() {
    device::<SpiFram>(128, 0x00, [3; 2]);
    device::<SpiFram>(128, 0xFF, [3; 2]);
    for sequence in sequences() {
        let aged = Simulated::<SpiFram>::with_image(aged(sequence, 0));
        explore(aged, |nv, w| count(nv, w))
            .depth(2)
            .max_depth(3)
            .run();
    }
}

#[test]
fn mram_by_16_bytes() {
    device::<Mram16>(128, 0x00, [3; 2]);
    device::<Mram16>(128, 0xFF, [3; 2]);
}

#[test]
#[cfg_attr(miri, ignore = "a chip of kilobytes")]
fn flash_of_an_stm32l1() {
    device::<Stm32l1>(3 * 256, 0x00, [in_turn(0, 2), in_turn(1, 2)]);
}

#[test]
#[cfg_attr(miri, ignore = "a chip of kilobytes")]
fn flash_by_half_pages() {
    device::<Stm32l1HalfPage>(3 * 512, 0x00, [2; 2]);
}

#[test]
#[cfg_attr(miri, ignore = "a chip of kilobytes")]
fn flash_of_an_stm32f0() {
    device::<Stm32f0>(3 * 2048, 0xFF, [1; 2]);
}

#[test]
#[cfg_attr(miri, ignore = "a chip of kilobytes")]
fn serial_flash() {
    device::<SpiNor>(3 * 4096, 0xFF, [1; 2]);
}

/// Words may be overwritten with zeros, so boots append where others were cut. A bank has three
/// slots. Of the last campaign and that of `tiny_serial_flash`, which take longest here, a run
/// makes one at most with two cuts.
#[test]
#[cfg_attr(miri, ignore = "three cuts deep")]
fn flash_that_is_overwritten_with_zeros() {
    type Wide = Small<256, 16, 16, false>;
    device::<TinyMultiwrite>(3 * 128, 0xFF, [2; 2]);
    let mut d = RamNor::<3, 256, 16, 0xFF, false>::new();
    let _ = Record::open(&mut d, 0..768, counter(0)).unwrap();
    // Without a read before: each read changes how an unstable word reads next.
    fn changes<D: Medium>(nv: D, world: &World<'_, Promise>, last: u32) {
        let mut r = Record::open(nv, 0..768, counter(0)).expect("only a power cut stops it");
        for n in look(world, *r.get())..last {
            world.update(|p| p.tried = n + 1);
            r.set(counter(n + 1)).expect("only a power cut stops it");
            assert_eq!(look(world, *r.get()), n + 1);
        }
    }
    let used = || Simulated::<Wide>::with_image(d.bytes().to_vec());
    let s = explore(used(), |nv, w| changes(nv, w, 1))
        .depth(3)
        .one_in(5)
        .run();
    println!("{s}");
    assert!(s.partial || s.cuts > 1000, "{s}");
    let s = explore(used(), |nv, w| changes(nv, w, 3))
        .depth(in_turn(1, 3))
        .run();
    println!("{s}");
    assert!(s.partial || s.cuts > 100, "{s}");
}

#[test]
fn tiny_serial_flash() {
    let s = explore(Simulated::<Bytewise>::new(3 * 64), |nv, w| {
        count_to(nv, w, 1)
    })
    .depth(in_turn(2, 3))
    .max_depth(2)
    .run();
    println!("{s}");
    assert!(s.partial || s.cuts > 500, "{s}");
}

/// A forced format of a device that held other data, or two values.
fn insist<D: Medium>(mut nv: D, world: &World<'_, bool>) {
    const NEW: u32 = 77;
    let all = 0..nv.capacity();
    if world.get() {
        let r = Record::<Counter, _>::open(nv, all, counter(1)).expect("it was formatted");
        assert_eq!(*r.get(), counter(NEW));
        return;
    }
    match Record::<Counter, _>::read(&mut nv, all.clone()) {
        // The newest value from before, the new value, or no valid record.
        Ok(Some(v)) => assert!([0, NEW].contains(&v.n), "an older value is back: {v:?}"),
        Ok(None) | Err(RecordError::Foreign | RecordError::Damaged) => {}
        Err(e) => panic!("{e}"),
    }
    let r = Record::format(nv, all, counter(NEW)).expect("only a power cut stops it");
    assert_eq!(*r.get(), counter(NEW));
    world.set(true);
}

#[test]
fn a_forced_format_makes_a_record_of_any_content() {
    fn mapped<M: Model>(image: Vec<u8>) {
        explore(Mapped::<M>::with_image(image), |nv, w| insist(nv, w))
            .depth(2)
            .max_depth(2)
            .sample(8)
            .run();
    }
    let images = [vec![0x5A; 128], vec![0; 128], aged(3, 0), aged(0xFFFF, 0)];
    for image in images.into_iter().skip(if cfg!(miri) { 3 } else { 0 }) {
        mapped::<InOrder16>(image.clone());
        mapped::<InOrder32>(image.clone());
        mapped::<Buffered32>(image.clone());
        explore(Simulated::<SpiFram>::with_image(image.clone()), |nv, w| {
            insist(nv, w)
        })
        .depth(2)
        .max_depth(2)
        .run();
        explore(Simulated::<Mram16>::with_image(image), |nv, w| {
            insist(nv, w)
        })
        .depth(2)
        .max_depth(2)
        .run();
    }
}

#[test]
fn a_forced_format_makes_a_record_of_any_flash() {
    let mut d = RamNor::<3, 64, 4, 0xFF>::new();
    for n in [7, 0] {
        let mut r = Record::open(&mut d, 0..192, counter(9)).unwrap();
        r.set(counter(n)).unwrap();
    }
    let used = Simulated::<Bytewise>::with_image(d.bytes().to_vec());
    explore(used, |nv, w| insist(nv, w)).run();
    let foreign = Simulated::<Stm32l1>::with_image(vec![0x5A; 3 * 256]);
    let s = explore(foreign, |nv, w| insist(nv, w))
        .depth(2)
        .max_depth(2)
        .run();
    println!("{s}");
}

/// Three cuts in the first format leave a foreign range without any data; a forced format recovers
/// it.
#[test]
fn three_cuts_in_the_first_format() {
    fn first<D: Medium>(mut nv: D, world: &World<'_, bool>, by_name: bool) {
        let all = 0..nv.capacity();
        let r = match Record::open(&mut nv, all.clone(), counter(0)) {
            Err(RecordError::Foreign | RecordError::Damaged) if by_name => {
                assert!(!world.get(), "a value was there");
                Record::format(&mut nv, all, counter(0))
            }
            r => r,
        };
        assert_eq!(r.expect("only a power cut stops it").get().n, 0);
        world.set(true);
    }
    let flash = || Simulated::<Bytewise>::new(3 * 64);
    // Cuts in the commit marker of the format marker, in the erase of the first bank, and in the
    // erase of the format marker. Found at depth 3.
    let line =
        "first@spi-nor@63718a37@0x98#1=4d^5!1/0x0#1=hb98c59b3^3/0x80#1=hb98c59b3^0!1@72971a78";
    let again = explore(flash(), |nv, w| first(nv, w, false)).name("first");
    let e = again.replay(line).try_run().expect_err("no record");
    let way = e.report().contains("Foreign") || e.report().contains("Damaged");
    assert!(way && e.report().contains("replayed exactly"), "{e}");
    let again = explore(flash(), |nv, w| first(nv, w, true)).name("first");
    again.replay(line).run();
    explore(flash(), |nv, w| first(nv, w, true)).run();
}
