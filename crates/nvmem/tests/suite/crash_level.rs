//! Wear levelling under power cuts, two deep, on flash with unstable words and interrupted erases.
//! Acknowledged writes stay, values read once never revert, and a write over several pages leaves a
//! prefix.

use crate::support::{Promise, Small, Tiny, TinyMultiwrite};
use crate::turns::{in_turn, is_chosen};
use nvmem::device::Medium;
use nvmem::level::{LevelError, WearLevelled};
use nvmem::ram::RamNor;
use powerfail::{
    Chip, EveryEvents, Simulated, SpiNor, Stm32f0, Stm32l1, Stm32l1HalfPage, World, endure, explore,
};

// The numbers of a [`Promise`] count written parts of pages.

/// The offset of the `n`-th part that the device writes; each has four bytes. Of every four parts,
/// the last two are one write across a page border. Page 1 is written once, page 0 often.
fn part(n: u32, pages: u32, page: u32) -> u32 {
    let turn = 3 + n / 4 % (pages - 3);
    match n % 4 {
        _ if n == 0 => page,
        0 => turn * page,
        1 => 0,
        2 => turn * page - 4,
        _ => turn * page,
    }
}

/// How many parts the write that begins with part `n` has.
fn parts(n: u32) -> u32 {
    if n % 4 == 2 { 2 } else { 1 }
}

fn value(n: u32) -> [u8; 4] {
    (n + 1).wrapping_mul(0x0101_0107).to_le_bytes()
}

/// The expected content after `n` parts.
fn model(n: u32, pages: u32, page: u32) -> Vec<u8> {
    let mut all = vec![0; (pages * page) as usize];
    // Older parts were overwritten.
    let early = if n > 0 { 0..1 } else { 0..0 };
    for i in early.chain(n.saturating_sub(8 * pages).max(1)..n) {
        all[part(i, pages, page) as usize..][..4].copy_from_slice(&value(i));
    }
    all
}

/// Finds how many parts the content holds.
fn look<D: Medium, const PAGE: usize>(
    d: &mut WearLevelled<'_, D, PAGE>,
    world: &World<'_, Promise>,
) -> u32 {
    let (page, pages) = (PAGE as u32, d.capacity() / PAGE as u32);
    let mut found = vec![0; d.capacity() as usize];
    d.read(0, &mut found).expect("only a power cut stops it");
    let p = world.get();
    let n = (p.seen..=p.tried).find(|n| model(*n, pages, page) == found);
    let Some(n) = n else {
        let found = &found[..found.len().min(64)];
        panic!(
            "{found:02x?} is there, {} parts were seen, {} tried",
            p.seen, p.tried
        );
    };
    assert_eq!(d.damaged_pages().expect("only a power cut stops it"), 0);
    // The device acts on this value.
    world.set(Promise { seen: n, tried: n });
    n
}

/// Continues writing until `last` parts are on the medium.
fn write_to<D: Medium, const PAGE: usize>(nv: D, world: &World<'_, Promise>, last: u32) {
    let mut table = [0; 1024];
    let mut d = WearLevelled::<_, PAGE>::open(nv, &mut table).expect("only a power cut stops it");
    let (page, pages) = (PAGE as u32, d.capacity() / PAGE as u32);
    let mut n = look(&mut d, world);
    while n < last {
        let k = parts(n);
        world.update(|p| p.tried = n + k);
        let bytes: Vec<u8> = (n..n + k).flat_map(value).collect();
        d.write(part(n, pages, page), &bytes)
            .expect("only a power cut stops it");
        n += k;
        world.set(Promise { seen: n, tried: n });
    }
    assert_eq!(look(&mut d, world), n);
}

/// An image after `writes` writes and `boots` boots with writes.
fn used<
    const UNITS: usize,
    const ERASE: usize,
    const WORD: usize,
    const ERASED: u8,
    const ONCE: bool,
    const PAGE: usize,
>(
    writes: u32,
    boots: u32,
) -> Vec<u8> {
    let mut flash = RamNor::<UNITS, ERASE, WORD, ERASED, ONCE>::new();
    let mut table = [0; 1024];
    let mut n = 0;
    for boot in 0..boots {
        let mut d = WearLevelled::<_, PAGE>::open(&mut flash, &mut table).unwrap();
        let pages = d.capacity() / PAGE as u32;
        while n < writes * (boot + 1) / boots {
            d.write(part(n, pages, PAGE as u32), &value(n)).unwrap();
            n += 1;
        }
    }
    flash.bytes().to_vec()
}

/// Blocks of 13 slots, whose words may be overwritten with zeros: boots append to them.
type Wide = Small<256, 4, 32, false>;

fn blank<C: Chip>() {
    let s = explore(Simulated::<C>::new(7 * 128), |nv, w| {
        write_to::<_, 8>(nv, w, 2)
    })
    .depth(2)
    .max_depth(2)
    .run();
    println!("{s}");
    assert!(s.partial || s.cuts > 10_000, "{s}");
}

#[test]
fn a_blank_flash() {
    blank::<Tiny>();
}

#[test]
#[cfg_attr(miri, ignore = "as the one before")]
fn a_blank_flash_that_is_overwritten_with_zeros() {
    blank::<TinyMultiwrite>();
}

/// A device in use: its flash is full, blocks are being cleaned, and the last boot left slots
/// unused.
fn in_use(writes: u32, boots: u32) -> Simulated<Tiny> {
    Simulated::with_image(used::<7, 128, 4, 0xFF, true, 8>(writes, boots))
}

fn in_use_multiwrite(writes: u32, boots: u32) -> Simulated<TinyMultiwrite> {
    Simulated::with_image(used::<7, 128, 4, 0xFF, false, 8>(writes, boots))
}

/// Blocks with many slots, to which each boot appends.
fn in_use_wide(writes: u32, boots: u32) -> Simulated<Wide> {
    Simulated::with_image(used::<7, 256, 4, 0xFF, false, 8>(writes, boots))
}

/// After `n` writes in one boot or several.
fn cut<C: Chip>(flash: fn(u32, u32) -> Simulated<C>, n: u32, boots: u32, depth: u32) {
    let s = explore(flash(n, boots), |nv, w| {
        write_to::<_, 8>(nv, w, w.get().seen + 1)
    })
    .name(&format!("in_use_{n}_{boots}"))
    .world(Promise { seen: n, tried: n })
    .depth(depth)
    .max_depth(2)
    .run();
    println!("{n} writes, {boots} boots: {s}");
}

// A full flash is cleaned at three numbers of used slots. One of them is cut twice in each run.

#[test]
fn a_full_flash_is_cleaned() {
    cut(in_use, 40, 1, in_turn(0, 3));
    if !cfg!(miri) {
        cut(in_use, 41, 1, in_turn(1, 3));
    }
}

#[test]
#[cfg_attr(miri, ignore = "as the one before, after ten boots")]
fn slots_that_boots_left_unused_are_cleaned() {
    cut(in_use, 40, 10, in_turn(2, 3));
}

#[test]
#[cfg_attr(miri, ignore = "as the ones before")]
fn a_full_flash_that_is_overwritten_with_zeros_is_cleaned() {
    cut(in_use_multiwrite, 40, 1, in_turn(1, 3));
    cut(in_use_multiwrite, 41, 1, in_turn(2, 3));
    cut(in_use_multiwrite, 40, 10, in_turn(0, 3));
}

#[test]
#[cfg_attr(miri, ignore = "a flash of 1,792 bytes, two cuts deep")]
fn boots_append_where_words_may_be_overwritten() {
    for n in 8..11 {
        cut(in_use_wide, n, 1, 2);
    }
    cut(in_use_wide, 9, 3, 2);
}

/// Three cuts: in the write of the last slot, in what the next boot kills or copies, and in what
/// the boot after it does about both slots. A third of the runs makes the third cut, and so does
/// one without `POWERFAIL_SAMPLE`: no other test here takes as long.
#[test]
#[cfg_attr(miri, ignore = "three cuts deep")]
fn boots_append_three_deep() {
    let s = explore(in_use_wide(2, 1), |nv, w: &World<'_, Promise>| {
        let mut table = [0; 1024];
        let opened = WearLevelled::<_, 8>::open(nv, &mut table);
        let mut d = opened.expect("only a power cut stops it");
        let n = look(&mut d, w);
        if n == 2 {
            w.update(|p| p.tried = 3);
            let pages = d.capacity() / 8;
            d.write(part(2, pages, 8), &value(2))
                .expect("only a power cut stops it");
            w.set(Promise { seen: 3, tried: 3 });
        }
    })
    .world(Promise { seen: 2, tried: 2 })
    .depth(if is_chosen(0, 3) { 3 } else { 2 })
    .run();
    println!("{s}");
    assert!(s.partial || s.cuts > 1000, "{s}");
}

/// A cut forced format leaves the previous content, a flash that does not open, or zeros; never
/// older content.
fn insist<D: Medium>(mut nv: D, world: &World<'_, bool>) {
    let mut table = [0; 64];
    let seen = match WearLevelled::<_, 8>::open(&mut nv, &mut table) {
        Ok(mut d) => {
            let mut b = vec![0; d.capacity() as usize];
            d.read(0, &mut b).expect("only a power cut stops it");
            Some(b)
        }
        Err(LevelError::Foreign | LevelError::Damaged) => None,
        Err(e) => panic!("{e}"),
    };
    if let Some(b) = &seen {
        let zeros = b.iter().all(|b| *b == 0);
        assert!(zeros || !world.get() && *b == model(40, 7, 8), "{b:02x?}");
    } else {
        assert!(!world.get(), "it was formatted");
    }
    if !world.get() {
        let mut d =
            WearLevelled::<_, 8>::format(&mut nv, &mut table).expect("only a power cut stops it");
        let mut b = [1; 56];
        d.read(0, &mut b).expect("only a power cut stops it");
        assert_eq!(b, [0; 56]);
        world.set(true);
    }
}

#[test]
fn a_format_by_name_gives_up_anything() {
    fn formats<C: Chip>(image: Vec<u8>) {
        let s = explore(Simulated::<C>::with_image(image), |nv, w| insist(nv, w))
            .depth(2)
            .max_depth(2)
            .run();
        println!("{s}");
    }
    formats::<Tiny>(vec![0x5A; 7 * 128]);
    if !cfg!(miri) {
        formats::<Tiny>(used::<7, 128, 4, 0xFF, true, 8>(40, 3));
        formats::<TinyMultiwrite>(used::<7, 128, 4, 0xFF, false, 8>(40, 3));
    }
}

/// The erases allowed per unit in 2000 boots with this many events on average: 10 % above the
/// measured maximum.
const LIFE: [(&str, u64, u32); 2] = [("short", 60, 610), ("long", 400, 2_600)];
const LIFE_WITH_OVERWRITES: [(&str, u64, u32); 2] = [("short", 60, 610), ("long", 400, 2_600)];

#[test]
fn a_life() {
    for (name, every, erases) in LIFE {
        live::<Tiny>(7 * 128, name, every, erases);
    }
}

/// As [`a_life`], where boots append to blocks of 13 slots.
#[test]
fn a_life_with_overwrites() {
    for (name, every, erases) in LIFE_WITH_OVERWRITES {
        live::<Wide>(7 * 256, name, every, erases);
    }
}

fn live<C: Chip>(size: usize, name: &str, every: u64, erases: u32) {
    let s = endure(
        Simulated::<C>::new(size).endurance(erases),
        EveryEvents(every),
        |nv, w| write_to::<_, 8>(nv, w, w.get().seen + 30),
        |w| w.seen,
    )
    .name(name)
    .boots(2000)
    .depth(2)
    .run();
    println!("{s}");
}

fn chip<C: Chip, const PAGE: usize>(size: usize, deepest: u32) {
    let s = explore(Simulated::<C>::new(size), |nv, w| {
        write_to::<_, PAGE>(nv, w, 3)
    })
    .depth(2)
    .max_depth(deepest)
    .run();
    println!("{}: {s}", C::CONTRACT.name);
    assert!(s.partial || s.cuts > 50, "{s}");
}

#[test]
#[cfg_attr(miri, ignore = "a chip of kilobytes")]
fn flash_of_an_stm32l1() {
    chip::<Stm32l1, 16>(6 * 256, 2);
}

#[test]
#[cfg_attr(miri, ignore = "a chip of kilobytes")]
fn flash_by_half_pages() {
    chip::<Stm32l1HalfPage, 244>(8 * 1536, 2);
}

#[test]
#[cfg_attr(miri, ignore = "a chip of kilobytes")]
fn flash_of_an_stm32f0() {
    chip::<Stm32f0, 64>(6 * 2048, 1);
}

#[test]
#[cfg_attr(miri, ignore = "a chip of kilobytes")]
fn serial_flash() {
    chip::<SpiNor, 16>(6 * 4096, 1);
}
