//! Typical bugs of shipped products. Each must be found, and its failure line must replay it.
#![allow(clippy::undocumented_unsafe_blocks)] // toys: offsets are constants inside a small region

use nvmem::{Buffered32, InOrder16, InOrder32, Medium, Model, Region, mapped};
use powerfail::{
    Device, EveryEvents, Explore, Failure, Mapped, Media, Nor, Stm32l1, World, WorldState, endure,
    explore,
};

fn get<M: Model>(nv: &Region<'_, M>, off: usize) -> u32 {
    unsafe { nv.load(off) }
}
fn put<M: Model>(nv: &Region<'_, M>, off: usize, v: u32) {
    unsafe { nv.store(off, v) }
}

/// Runs the campaign, expects the bug, and replays its line.
fn found<M: Media, T: WorldState>(campaign: impl Fn() -> Explore<M, T>, what: &str) -> Failure {
    let e = campaign().try_run().expect_err("the planted bug");
    println!("{e}\n");
    assert!(e.report().contains(what), "{e}");
    let line = e.line().expect("a line to replay");
    let again = campaign().replay(line).try_run().expect_err("the same bug");
    assert!(again.report().contains("replayed exactly"), "{again}");
    assert!(again.report().contains(what), "{again}");
    assert_eq!(again.line(), Some(line));
    e
}

/// Two slots, each with sequence number, value, and copy of the value.
fn slots<M: Model>(nv: Region<'_, M>, world: &World<u32>, order: [usize; 3], fence: bool) {
    let newest = usize::from(get(&nv, 16) > get(&nv, 0));
    let n = get(&nv, newest * 16);
    if n > 0 {
        let (a, b) = (get(&nv, newest * 16 + 4), get(&nv, newest * 16 + 8));
        assert_eq!(a, b, "half a value");
        assert!(a >= world.last_acknowledged(), "lost");
    }
    if n < 3 {
        let to = (1 - newest) * 16;
        for (k, off) in order.into_iter().enumerate() {
            if k == 2 && fence {
                mapped::fence::<M>();
            }
            put(&nv, to + off, n + 1);
        }
        mapped::fence::<M>();
        world.acknowledge(n + 1);
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn missing_fence() {
    explore(Mapped::<Buffered32>::new(64), |nv, w| {
        slots(nv, w, [4, 8, 0], true)
    })
    .depth(2)
    .run();
    let e = found(
        || {
            explore(Mapped::<Buffered32>::new(64), |nv, w| {
                slots(nv, w, [4, 8, 0], false)
            })
        },
        "half a value",
    );
    assert_eq!(e.cuts(), 1);
    // On an in-order medium it is correct.
    explore(Mapped::<InOrder32>::new(64), |nv, w| {
        slots(nv, w, [4, 8, 0], false)
    })
    .depth(2)
    .run();
}

#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn wrong_order() {
    let wrong = || {
        explore(Mapped::<InOrder16>::new(64), |nv, w| {
            slots(nv, w, [0, 4, 8], true)
        })
        .field("slot0.seq", 0..2)
        .field("slot1.seq", 16..18)
        .field("slot1.value", 20..22)
    };
    let e = found(wrong, "half a value");
    assert!(
        e.report().contains("slot1.seq = 1   slot1.value = 1"),
        "{e}"
    );
}

/// A commit word of 32 bits is one store of the program, but two stores of a medium with 16-bit
/// units.
#[test]
fn a_store_wider_than_the_unit_can_be_torn() {
    fn flag<M: Model>(nv: Region<'_, M>) {
        let at: *mut u32 = nv.base().cast();
        let word = unsafe { mapped::load(at) };
        assert!(word == 0 || word == 0x0001_0001, "half a word: {word:#x}");
        unsafe { mapped::store(at, 0x0001_0001_u32) };
    }
    let narrow = || explore(Mapped::<InOrder16>::new(64), |nv, _: &World<()>| flag(nv));
    found(narrow, "half a word: 0x1");
    explore(Mapped::<InOrder32>::new(64), |nv, _: &World<()>| flag(nv)).run();
}

/// Recovery undoes a change of two words, but does not expect a cut in recovery itself.
fn undo(nv: &Region<'_, InOrder32>, clear_first: bool, most: u32) {
    const LOGGED: usize = 0;
    const OLD_A: usize = 4;
    const OLD_B: usize = 8;
    const A: usize = 16;
    const B: usize = 20;
    if get(nv, LOGGED) == 1 {
        if clear_first {
            put(nv, LOGGED, 0);
        }
        put(nv, A, get(nv, OLD_A));
        put(nv, B, get(nv, OLD_B));
        put(nv, LOGGED, 0);
    }
    let (a, b) = (get(nv, A), get(nv, B));
    assert_eq!(a, b, "half a change");
    if a < most {
        put(nv, OLD_A, a);
        put(nv, OLD_B, b);
        put(nv, LOGGED, 1);
        put(nv, A, a + 1);
        put(nv, B, b + 1);
        put(nv, LOGGED, 0);
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn two_cuts_needed() {
    explore(Mapped::new(64), |nv, _: &World<()>| undo(&nv, false, 2))
        .depth(3)
        .run();
    explore(Mapped::new(64), |nv, _: &World<()>| undo(&nv, true, 2))
        .depth(1)
        .run();
    let e = found(
        || explore(Mapped::new(64), |nv, _: &World<()>| undo(&nv, true, 2)).depth(2),
        "half a change",
    );
    assert_eq!(e.cuts(), 2);
}

#[test]
fn drop_guard_repairs_the_medium_after_the_cut() {
    struct Repair<'r, 'm>(&'r Region<'m, InOrder32>);
    impl Drop for Repair<'_, '_> {
        fn drop(&mut self) {
            put(self.0, 4, get(self.0, 0));
        }
    }
    fn program(nv: Region<'_, InOrder32>) {
        assert_eq!(get(&nv, 0), get(&nv, 4), "half a change");
        let guard = Repair(&nv);
        put(&nv, 0, get(&nv, 0) + 1);
        drop(guard);
    }
    found(
        || explore(Mapped::new(64), |nv, _: &World<()>| program(nv)),
        "half a change",
    );
}

#[test]
fn leaked_static() {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static CACHE: AtomicU32 = AtomicU32::new(0);
    // Set only in recovery, so two runs without a cut agree.
    let campaign = || {
        explore(Mapped::<InOrder32>::new(64), |nv, _: &World<()>| {
            if get(&nv, 0) == 1 && get(&nv, 4) == 0 {
                put(&nv, 8, CACHE.fetch_add(1, Relaxed));
            }
            put(&nv, 0, 1);
            put(&nv, 4, 1);
        })
    };
    found(campaign, "outlives the reboot");
}

#[test]
fn stored_address() {
    let e = explore(Mapped::<InOrder32>::new(64), |nv, _: &World<()>| {
        put(&nv, 0, nv.base() as usize as u32);
    })
    .try_run()
    .unwrap_err();
    assert!(e.report().contains("an address is stored"), "{e}");
}

/// An append-only log on NOR. A slot holds a check word and a value, and the last valid slot is the
/// newest.
#[derive(Clone, Copy, PartialEq)]
enum Wrong {
    Nothing,
    /// Shows the value at once, though it may be gone at the next boot.
    Unconfirmed,
    /// Checks one reading, and takes the value from another.
    ReadTwice,
    /// Takes a word that reads as erased for erased.
    LooksErased,
}

const SLOTS: u32 = 32;

/// The world: the value shown last, and the number of boots.
fn log(mut nv: Device<'_, Stm32l1>, world: &World<(u32, u32)>, wrong: Wrong) {
    world.update(|w| w.1 += 1);
    let (shown, boots) = world.get();
    let mut word = [0; 4];
    let (mut newest, mut end) = (0, 0);
    for i in 0..SLOTS {
        nv.read_word(i * 8, &mut word);
        let check = u32::from_le_bytes(word);
        nv.read_word(i * 8 + 4, &mut word);
        let mut value = u32::from_le_bytes(word);
        if check == !value && value != 0 {
            if wrong == Wrong::ReadTwice {
                nv.read_word(i * 8 + 4, &mut word);
                value = u32::from_le_bytes(word);
            }
            newest = value;
        }
        if (check, value) != (0, 0) {
            end = i + 1;
        }
    }
    if wrong != Wrong::LooksErased {
        // The slot after the last may only look erased. A word programmed to all zeros is not
        // touched again.
        for word in 0..2 {
            Medium::write(&mut nv, end * 8 + word * 4, &[0xff; 4]).unwrap();
        }
        end += 1;
    }
    let mut append = |value: u32| {
        Medium::write(&mut nv, end * 8, &(!value).to_le_bytes()).unwrap();
        Medium::write(&mut nv, end * 8 + 4, &value.to_le_bytes()).unwrap();
        end += 1;
    };
    if wrong != Wrong::Unconfirmed && newest > 0 {
        append(newest);
    }
    // The low byte is a sensor's value, so it differs at each attempt.
    let n = newest >> 8;
    assert!(n >= shown, "shown {shown}, read {n}");
    world.update(|w| w.0 = n);
    if n < 2 {
        append((n + 1) << 8 | boots);
        world.update(|w| w.0 = n + 1);
    }
}

trait ReadWord {
    fn read_word(&mut self, at: u32, to: &mut [u8; 4]);
}
impl ReadWord for Device<'_, Stm32l1> {
    fn read_word(&mut self, at: u32, to: &mut [u8; 4]) {
        Medium::read(self, at, to).unwrap();
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn a_log_on_nor_holds() {
    let s = explore(Nor::stm32l1().size(512), |nv, w| log(nv, w, Wrong::Nothing))
        .depth(2)
        .run();
    println!("{s}");
    assert!(s.boots > 100, "{s}");
}

#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn unstable_unconfirmed_record() {
    let e = found(
        || {
            explore(Nor::stm32l1().size(512), |nv, w| {
                log(nv, w, Wrong::Unconfirmed)
            })
            .depth(2)
        },
        "shown",
    );
    assert!(e.report().contains("unstable"), "{e}");
}

#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn unstable_value_read_twice() {
    let e = found(
        || {
            explore(Nor::stm32l1().size(512), |nv, w| {
                log(nv, w, Wrong::ReadTwice)
            })
            .depth(2)
        },
        "shown",
    );
    assert!(e.report().contains("unstable"), "{e}");
}

#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn unstable_tail_only_looks_erased() {
    let e = found(
        || {
            explore(Nor::stm32l1().size(512), |nv, w| {
                log(nv, w, Wrong::LooksErased)
            })
            .depth(2)
        },
        "shown",
    );
    assert!(e.report().contains("unstable"), "{e}");
}

/// Selects the newer of two slots by a 16-bit sequence number, compared without regard to wrapping.
fn sequence(nv: Region<'_, InOrder16>, world: &World<u32>, wraps: bool) {
    let seq = |slot: usize| get(&nv, slot * 8) as u16;
    let newer = if wraps {
        (seq(1).wrapping_sub(seq(0)) as i16) > 0
    } else {
        seq(1) > seq(0)
    };
    let newest = usize::from(newer);
    let value = get(&nv, newest * 8 + 2);
    assert!(
        value >= world.get() % 0x1_0000,
        "acknowledged {}, read {value}",
        world.get()
    );
    let to = 1 - newest;
    put(&nv, to * 8 + 2, value + 1);
    put(&nv, to * 8, seq(newest).wrapping_add(1).into());
    world.set(value + 1);
}

/// Slots that hold 65534 and 65535.
fn aged() -> Vec<u8> {
    let mut image = vec![0; 64];
    image[0..4].copy_from_slice(&[0xfe, 0xff, 1, 0]);
    image[8..12].copy_from_slice(&[0xff, 0xff, 2, 0]);
    image
}

#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn sixteen_bit_sequence_wraps() {
    let wrong = || {
        explore(Mapped::<InOrder16>::new(64), |nv, w| sequence(nv, w, false))
            .image(aged())
            .depth(2)
    };
    found(wrong, "acknowledged");
    explore(Mapped::<InOrder16>::new(64), |nv, w| sequence(nv, w, true))
        .image(aged())
        .depth(3)
        .run();
    // With a fresh image the bug does not show.
    explore(Mapped::<InOrder16>::new(64), |nv, w| sequence(nv, w, false))
        .depth(2)
        .run();
}

/// Half of the sequence numbers are used up.
fn middle_aged() -> Vec<u8> {
    let mut image = vec![0; 64];
    image[1] = 0x80;
    image
}

#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn endurance_reaches_the_wrap() {
    let wrong = || {
        endure(
            Mapped::<InOrder16>::new(64),
            EveryEvents(11),
            |nv, w: &World<u32>| sequence(nv, w, false),
            |told| *told,
        )
        .image(middle_aged())
        .boots(60_000)
    };
    let e = wrong().try_run().unwrap_err();
    // In some lives the power is cut before the next number.
    assert!((33_000..45_000).contains(&e.cuts()), "{e}");
    let again = wrong().replay(e.line().unwrap()).try_run().unwrap_err();
    assert!(again.report().contains("replayed exactly"), "{again}");
}

/// Erases the first unit in each boot.
fn wear(mut nv: Device<'_, Stm32l1>, boots: &World<u32>) {
    boots.set(boots.get() + 1);
    Medium::erase(&mut nv, 0, 256).unwrap();
}

#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn a_worn_out_unit_is_a_failure() {
    let nor = |cycles| Nor::stm32l1().endurance(cycles).size(512);
    let life = |cycles| {
        endure(nor(cycles), EveryEvents(50), wear, |n| *n)
            .fixed_period()
            .boots(40)
    };
    life(41).run();
    let e = life(40).try_run().expect_err("the 41st erase");
    let what = "worn out: the erase unit at 0x0 is erased more than 40 times";
    assert!(e.report().contains(what), "{e}");
    assert_eq!(e.cuts(), 40);
    let again = life(40).replay(e.line().unwrap()).try_run();
    assert!(again.unwrap_err().report().contains("replayed exactly"));
    // Within one execution with its cuts; cut erases count, too.
    let all = |cycles| explore(nor(cycles), wear).depth(2);
    assert_eq!(found(|| all(2), "worn out").cuts(), 2);
    all(3).run();
    // Without `endurance` nothing is enforced.
    endure(Nor::stm32l1(), EveryEvents(50), wear, |n| *n).run();
}

#[test]
fn nothing_runs_after_the_cut() {
    struct Repair<'r, 'm>(&'r Region<'m, InOrder32>);
    impl Drop for Repair<'_, '_> {
        fn drop(&mut self) {
            put(self.0, 4, get(self.0, 0));
        }
    }
    fn program(nv: Region<'_, InOrder32>) {
        loop {
            assert_eq!(get(&nv, 0), get(&nv, 4), "half a change");
            let guard = Repair(&nv);
            put(&nv, 0, get(&nv, 0) + 1);
            drop(guard);
        }
    }
    let e = endure(
        Mapped::new(64),
        EveryEvents(5),
        |nv, _: &World<()>| program(nv),
        |()| (),
    )
    .try_run()
    .unwrap_err();
    assert!(e.report().contains("half a change"), "{e}");
    // The same in an explored super-loop.
    let e = found(
        || explore(Mapped::new(64), |nv, _: &World<()>| program(nv)).horizon(8),
        "half a change",
    );
    assert_eq!(e.cuts(), 1);
}

#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn endurance_finds_what_needs_two_cuts() {
    fn once(nv: Region<'_, InOrder32>, done: &World<'_, u32>, clear_first: bool) {
        undo(&nv, clear_first, u32::MAX);
        done.set(done.get() + 1);
    }
    let (nv, every) = (|| Mapped::new(64), EveryEvents(8));
    endure(nv(), every, |nv, w| once(nv, w, false), |n| *n)
        .depth(2)
        .run();
    let e = endure(nv(), every, |nv, w| once(nv, w, true), |n| *n)
        .depth(2)
        .try_run()
        .unwrap_err();
    println!("{e}");
    assert!(e.report().contains("half a change"), "{e}");
}
