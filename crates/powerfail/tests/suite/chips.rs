//! The content of simulated devices, and what a cut leaves of a write and of an erase.

use nvmem::device::{Contract, EraseUnit, Medium, Misuse, Torn};
use powerfail::{
    BufferedNor, Chip, Device, EveryEvents, Misused, Multiwrite, Nor, Simulated, SpiNor, World,
    endure, explore, explore_with, measure,
};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// Words of `W` bytes, atomic units of `U`, reads of `R`. `T` is what a cut leaves, and `E` says
/// whether it is a flash.
enum Any<const T: u8, const W: u32, const U: u32, const R: u32, const E: bool> {}
impl<const T: u8, const W: u32, const U: u32, const R: u32, const E: bool> Chip
    for Any<T, W, U, R, E>
{
    const CONTRACT: Contract = Contract {
        name: "any",
        read_size: R,
        write_size: W,
        unit: U,
        torn: match T {
            0 => Torn::Prefix,
            1 => Torn::Subset,
            2 => Torn::Arbitrary,
            _ => Torn::Unstable,
        },
        erase: if E {
            Some(EraseUnit {
                size: 32,
                erased: 0xff,
                write_once: false,
                endurance: 0,
            })
        } else {
            None
        },
    };
}

/// The bytes of one write, none of them 0 or 0xff.
const NEW: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

fn written_is_read<C: Chip>() {
    let c = C::CONTRACT;
    let fill = c.erase.map_or(0, |e| e.erased);
    measure(Simulated::<C>::new(64), |mut nv, _| {
        nv.write_all(16, &NEW);
        let mut all = [0xee; 64];
        Medium::read(&mut nv, 0, &mut all).unwrap();
        assert_eq!(all[16..32], NEW, "{c:?}");
        assert!(
            all[..16].iter().chain(&all[32..]).all(|b| *b == fill),
            "{c:?}"
        );
        let mut few = vec![0; c.read_size as usize];
        Medium::read(&mut nv, 16, &mut few).unwrap();
        assert_eq!(few, NEW[..few.len()], "{c:?}");
        Medium::erase(&mut nv, 0, 32).unwrap();
        Medium::read(&mut nv, 0, &mut all).unwrap();
        let gone = c.erase.is_some();
        assert_eq!(all[16..32] == NEW, !gone, "{c:?}");
    });
}

trait WriteAll {
    fn write_all(&mut self, at: u32, bytes: &[u8]);
}
impl<C: Chip> WriteAll for Device<'_, C> {
    fn write_all(&mut self, at: u32, bytes: &[u8]) {
        Medium::write(self, at, bytes).unwrap();
    }
}

#[test]
fn what_is_written_is_read_with_any_sizes() {
    macro_rules! sizes {
        ($($t:literal $w:literal $u:literal $r:literal $e:literal;)+) => {
            $(written_is_read::<Any<$t, $w, $u, $r, $e>>();)+
        };
    }
    sizes! {
        0 1 1 1 false; 0 4 1 1 false; 0 4 4 4 false; 0 8 2 2 false; 0 1 4 1 false; 0 2 8 1 false; 0 16 16 8 false;
        0 1 3 1 false; 0 4 1 1 true; 0 1 8 1 true;
        1 1 1 1 false; 1 4 1 1 false; 1 4 4 4 false; 1 8 2 2 false; 1 1 4 1 false; 1 2 4 1 true; 1 8 2 1 true;
        2 1 1 1 false; 2 4 1 2 false; 2 16 4 4 false; 2 4 1 1 true;
        3 1 1 1 true; 3 4 1 2 true; 3 16 4 4 true;
    }
}

type Images = Mutex<BTreeSet<Vec<u8>>>;

/// All contents that a cut may leave of one write of `NEW` to bytes 2 to 17.
fn leaves<C: Chip>() -> BTreeSet<Vec<u8>> {
    fn program<C: Chip>(mut nv: Device<'_, C>, begun: &World<'_, bool>, all: &Arc<Images>) {
        let mut found = vec![0; 24];
        Medium::read(&mut nv, 0, &mut found).unwrap();
        all.lock().unwrap().insert(found);
        if !begun.get() {
            begun.set(true);
            nv.write_all(2, &NEW);
        }
    }
    let all = Arc::new(Images::default());
    explore_with(all.clone(), Simulated::<C>::new(64), program::<C>).run();
    std::mem::take(&mut all.lock().unwrap())
}

/// The image in which the units of `unit` bytes that `new` selects are new.
fn units(unit: usize, new: impl Fn(usize) -> bool) -> Vec<u8> {
    let mut all = vec![0; 24];
    for (i, b) in NEW.iter().enumerate() {
        if new((i + 2) / unit) {
            all[i + 2] = *b;
        }
    }
    all
}

#[test]
fn a_cut_leaves_whole_units_in_order() {
    fn all<C: Chip>() {
        let unit = C::CONTRACT.unit as usize;
        let ends = (0..=18_usize.div_ceil(unit)).map(|k| (k * unit).clamp(2, 18));
        let prefixes = ends.map(|n| units(1, |i| i < n));
        assert_eq!(leaves::<C>(), prefixes.collect(), "{unit}");
    }
    all::<Any<0, 1, 1, 1, false>>();
    all::<Any<0, 2, 2, 1, false>>();
    all::<Any<0, 2, 4, 1, false>>();
    all::<Any<0, 1, 8, 1, false>>();
    all::<Any<0, 2, 1, 2, false>>();
}

#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn a_cut_leaves_any_subset_of_what_was_not_flushed() {
    fn all<C: Chip>() {
        let sets = (0..32_u32).map(|set| units(4, |i| set & 1 << i != 0));
        assert_eq!(leaves::<C>(), sets.collect());
    }
    all::<Any<1, 1, 4, 1, false>>();
    all::<Any<1, 2, 4, 2, false>>();
}

/// A record of two words and its valid flag, on flash: erased, written, and read after a cut.
#[derive(Clone, Copy)]
enum Missing {
    Nothing,
    BeforeFlag,
    BeforeTold,
}

fn record<C: Chip>(nv: &mut Device<'_, C>, world: &World<u32>, most: u32, missing: Missing) {
    let get = |nv: &mut Device<'_, C>, at| {
        let mut w = [0; 4];
        Medium::read(nv, at, &mut w).unwrap();
        u32::from_le_bytes(w)
    };
    let mut newest = 0;
    let mut slot = 1;
    for s in 0..2 {
        let n = get(nv, s * 64 + 8);
        if n != u32::MAX && n > newest {
            (newest, slot) = (n, s);
        }
    }
    let words = [get(nv, slot * 64), get(nv, slot * 64 + 4)];
    assert!(newest == 0 || words == [newest; 2], "half a record");
    assert!(newest >= world.last_acknowledged(), "lost");
    if newest < most {
        let (n, to) = (newest + 1, (1 - slot) * 64);
        Medium::erase(nv, to, to + 64).unwrap();
        nv.write_all(to, &n.to_le_bytes());
        nv.write_all(to + 4, &n.to_le_bytes());
        if !matches!(missing, Missing::BeforeFlag) {
            Medium::flush(nv).unwrap();
        }
        nv.write_all(to + 8, &n.to_le_bytes());
        if !matches!(missing, Missing::BeforeTold) {
            Medium::flush(nv).unwrap();
        }
        world.acknowledge(n);
    }
}

/// A used device that holds numbers 1 and 2.
fn used() -> Vec<u8> {
    let mut image = vec![0xff; 128];
    for (slot, n) in [(0, 1_u32), (1, 2)] {
        for word in 0..3 {
            image[slot * 64 + word * 4..][..4].copy_from_slice(&n.to_le_bytes());
        }
    }
    image
}

#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn a_flush_means_something_on_flash_with_a_write_buffer() {
    let run = |missing| {
        let nv = Simulated::<BufferedNor>::with_image(used());
        explore_with(missing, nv, |mut nv, w, m| record(&mut nv, w, 4, *m))
            .world(2)
            .depth(2)
            .try_run()
    };
    let s = run(Missing::Nothing).unwrap();
    assert!(s.partial || s.boots > 10, "{s}");
    let fails = |missing, what| {
        let e = run(missing).unwrap_err();
        assert!(e.report().contains(what), "{e}");
    };
    fails(Missing::BeforeFlag, "half a record");
    fails(Missing::BeforeTold, "lost");
}

/// An erase that the world knows of, and the content found after a cut.
fn told_erased<C: Chip>(mut nv: Device<'_, C>, told: &World<bool>, flush: bool) {
    let mut word = [0; 4];
    Medium::read(&mut nv, 0, &mut word).unwrap();
    assert!(!told.get() || word == [0xff; 4], "not erased");
    Medium::erase(&mut nv, 0, 64).unwrap();
    if flush {
        Medium::flush(&mut nv).unwrap();
    }
    told.set(true);
}

#[test]
fn an_erase_is_open_until_the_flush() {
    let nv = || Simulated::<BufferedNor>::with_image(used());
    explore(nv(), |nv, w| told_erased(nv, w, true)).run();
    let e = explore(nv(), |nv, w| told_erased(nv, w, false)).try_run();
    assert!(e.unwrap_err().report().contains("not erased"));
    // On other devices an erase is complete when it returns.
    let other = Simulated::<Any<2, 4, 1, 1, true>>::with_image(used());
    explore(other, |nv, w| told_erased(nv, w, false)).run();
}

#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn a_write_buffer_is_lost_in_a_long_life_too_and_wear_counts() {
    fn forever(mut nv: Device<'_, BufferedNor>, world: &World<u32>, missing: Missing) {
        Medium::erase(&mut nv, 128, 192).unwrap();
        record(&mut nv, world, u32::MAX, missing);
    }
    let nor = || Simulated::<BufferedNor>::new(192);
    let e = endure(
        nor(),
        EveryEvents(60),
        |nv, w| forever(nv, w, Missing::BeforeFlag),
        |n| *n,
    );
    let e = e.try_run().unwrap_err();
    assert!(e.report().contains("half a record"), "{e}");
    fn right(nv: Device<'_, BufferedNor>, world: &World<'_, u32>) {
        forever(nv, world, Missing::Nothing)
    }
    endure(nor(), EveryEvents(60), right, |n| *n).run();
    let e = endure(nor().endurance(5), EveryEvents(60), right, |n| *n).try_run();
    let e = e.unwrap_err();
    assert!(
        e.report().contains("worn out: the erase unit at 0x80"),
        "{e}"
    );
}

/// A cut erase, read twice at each boot.
fn read_twice<C: Chip>(mut nv: Device<'_, C>, world: &World<bool>) {
    let (mut a, mut b) = ([0; 32], [0; 32]);
    Medium::read(&mut nv, 0, &mut a).unwrap();
    Medium::read(&mut nv, 0, &mut b).unwrap();
    assert_eq!(a, b, "unstable");
    let whole = a == [0xff; 32] || a[..16] == NEW && a[16..] == [0xff; 16];
    assert!(whole || !world.get(), "torn");
    Medium::erase(&mut nv, 0, 32).unwrap();
}

/// A cut leaves words unstable, but not erases.
enum StableErase {}
impl Chip for StableErase {
    const CONTRACT: Contract = Any::<3, 4, 1, 1, true>::CONTRACT;
    const STABLE_ERASE: bool = true;
}

#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn a_cut_erase_is_as_the_chip_says() {
    fn run<C: Chip>(tears: bool) -> Result<powerfail::Summary, powerfail::Failure> {
        let image = [&NEW[..], &[0xff; 16]].concat();
        explore(Simulated::<C>::with_image(image), |nv, w| read_twice(nv, w))
            .world(tears)
            .try_run()
    }
    let unstable = run::<Any<3, 4, 1, 1, true>>(false).unwrap_err();
    assert!(unstable.report().contains("unstable"), "{unstable}");
    run::<StableErase>(false).unwrap();
    run::<Any<2, 4, 1, 1, true>>(false).unwrap();
    run::<Any<0, 4, 4, 1, true>>(false).unwrap();
    // Stable, but incomplete.
    for e in [
        run::<StableErase>(true),
        run::<Any<2, 4, 1, 1, true>>(true),
        run::<Any<0, 4, 4, 1, true>>(true),
    ] {
        assert!(e.unwrap_err().report().contains("torn"));
    }
}

#[test]
fn bits_are_cleared_twice_where_the_chip_allows_it() {
    use embedded_storage::nor_flash::MultiwriteNorFlash;
    fn twice<F: MultiwriteNorFlash>(mut f: F) -> [u8; 1] {
        f.write(0, &[0xf7]).unwrap();
        f.write(0, &[0x7f]).unwrap();
        let mut b = [0];
        f.read(0, &mut b).unwrap();
        b
    }
    fn also<F: embedded_storage_async::nor_flash::MultiwriteNorFlash>(_: &F) {}
    const { assert!(!SpiNor::CONTRACT.erase.unwrap().write_once) };
    measure(Nor::spi(), |nv, _| {
        also(&nv);
        assert_eq!(twice(nv), [0x77]);
    });
    enum Mine {}
    impl Chip for Mine {
        const CONTRACT: Contract = Any::<2, 1, 1, 1, true>::CONTRACT;
    }
    impl Multiwrite for Mine {}
    // Programming only clears bits, also in unstable words.
    measure(Simulated::<Mine>::new(64), |nv, _| {
        assert_eq!(twice(nv), [0x77])
    });
}

/// Writes the same word in each boot, and ignores errors.
fn careless(mut nv: Device<'_, powerfail::Stm32l1>, world: &World<u32>) {
    world.set(world.get() + 1);
    let _ = Medium::write(&mut nv, 0, &[1; 4]);
    match Medium::write(&mut nv, 0, &[2; 4]) {
        Err(Misused(why)) => assert_eq!(why, Misuse::NotErased),
        Ok(()) => panic!("written twice"),
    }
}

#[test]
fn a_refused_write_can_be_a_failure() {
    explore(Nor::stm32l1(), careless).run();
    let e = explore(Nor::stm32l1().refusal_fails(), careless);
    let e = e.try_run().unwrap_err();
    let what =
        "refused: write of 4 bytes at 0x0: a write-once word is written again without an erase";
    assert!(e.report().contains(what), "{e}");
    // Also with another size, and for the other calls.
    type Call = fn(&mut Device<'_, powerfail::Stm32l1>) -> Result<(), Misused>;
    let calls: [(Call, &str); 4] = [
        (
            |nv| Medium::read(nv, 500, &mut [0; 20]),
            "read of 20 bytes at 0x1f4: outside",
        ),
        (
            |nv| Medium::write(nv, 2, &[0; 4]),
            "write of 4 bytes at 0x2: not a multiple",
        ),
        (
            |nv| Medium::erase(nv, 0, 100),
            "erase of 100 bytes at 0x0: not a multiple",
        ),
        (
            |nv| Medium::erase(nv, 256, 0),
            "erase of 0 bytes at 0x100: outside",
        ),
    ];
    for (call, what) in calls {
        let nor = Nor::stm32l1().refusal_fails().size(512);
        let e = explore_with(call, nor, |mut nv, w: &World<bool>, call| {
            w.set(true);
            let _ = call(&mut nv);
        });
        let e = e.try_run().unwrap_err();
        assert!(e.report().contains(what), "{e}");
    }
}
