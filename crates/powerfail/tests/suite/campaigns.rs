//! Random programs, closure, watched side effects, cost, replay of changed programs.
#![allow(clippy::undocumented_unsafe_blocks)] // toys: offsets are constants inside a small region

use nvmem::{Buffered32, InOrder32, Model, Region, mapped};
use powerfail::{
    Cost, Mapped, Nor, Price, Simulated, SpiFram, World, explore, explore_with, measure, random,
};

fn get<M: Model>(nv: &Region<'_, M>, off: usize) -> u32 {
    unsafe { nv.load(off) }
}
fn put<M: Model>(nv: &Region<'_, M>, off: usize, v: u32) {
    unsafe { nv.store(off, v) }
}

/// Adds to a cell and to the total. The flag makes both atomic, unless the amount is 13.
fn add(nv: &Region<'_, InOrder32>, amount: u32) {
    let unlucky = amount == 13;
    if !unlucky {
        put(nv, 8, get(nv, 0) + amount);
        put(nv, 12, get(nv, 4) + amount);
        put(nv, 16, 1);
    }
    put(nv, 0, get(nv, 0) + amount);
    put(nv, 4, get(nv, 4) + amount);
    put(nv, 16, 0);
}

fn sums(nv: Region<'_, InOrder32>, amounts: &[u32]) {
    if get(&nv, 16) == 1 {
        put(&nv, 0, get(&nv, 8));
        put(&nv, 4, get(&nv, 12));
        put(&nv, 16, 0);
    }
    assert_eq!(get(&nv, 0), get(&nv, 4), "sum");
    for &a in amounts {
        add(&nv, a);
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn random_programs_are_shrunk() {
    let right = random(
        proptest::collection::vec(0..10_u32, 0..5),
        || Mapped::new(64),
        |nv, _: &World<()>, a| {
            put(&nv, 20, 1);
            sums(nv, a)
        },
    );
    let s = right.cases(30).depth(2).run();
    assert!(s.boots > 100, "{s}");
    let wrong = random(
        proptest::collection::vec(0..30_u32, 1..9),
        || Mapped::new(64),
        |nv, _: &World<()>, a| sums(nv, a),
    );
    let e = wrong.cases(500).name("sums").try_run().unwrap_err();
    println!("{e}");
    assert!(e.report().contains("[\n    13,\n]"), "{e}");
    assert!(e.report().contains("before 0x4 = 0xd"), "{e}");
    let line = e.line().unwrap().to_owned();
    let again = explore_with(
        vec![13],
        Mapped::new(64),
        |nv, _: &World<()>, a: &Vec<u32>| sums(nv, a),
    )
    .name("sums")
    .replay(&line)
    .try_run()
    .unwrap_err();
    assert!(again.report().contains("replayed exactly"), "{again}");
}

#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn closure_reaches_all_images() {
    let s = explore(Mapped::<InOrder32>::new(64), |nv, _: &World<()>| {
        // Each boot takes one step of a cycle of five, in two stores.
        let n = get(&nv, 0);
        put(&nv, 4, n);
        put(&nv, 0, (n + 1) % 5);
    })
    .closure()
    .run();
    assert!(s.depth >= 5, "{s:?}");
    assert!((10..=25).contains(&s.boots), "{s:?}");
}

#[test]
fn a_side_effect_that_bypassing_omits() {
    use std::cell::Cell;
    thread_local! { static CACHE: Cell<u32> = const { Cell::new(0) } }
    fn program(nv: Region<'_, InOrder32>, world: &World<()>, again: bool) {
        CACHE.set(0);
        if get(&nv, 0) == 0 {
            // A step with a side effect outside of the medium.
            CACHE.set(7);
            put(&nv, 0, 1);
        } else if again {
            CACHE.set(7);
        }
        world.watch("cache", CACHE.get());
    }
    explore(Mapped::new(64), |nv, w| program(nv, w, true)).run();
    let e = explore(Mapped::new(64), |nv, w| program(nv, w, false))
        .try_run()
        .unwrap_err();
    assert!(e.report().contains("`cache` is 0 here, and was 7"), "{e}");
    let line = e.line().unwrap();
    let again = explore(Mapped::new(64), |nv, w| program(nv, w, false))
        .replay(line)
        .try_run();
    assert!(again.unwrap_err().report().contains("replayed exactly"));
}

fn undo(nv: &Region<'_, InOrder32>, first: usize, pad: bool) {
    if pad {
        put(nv, 40, 5);
    }
    put(nv, first, 1);
    put(nv, 8, 1);
    put(nv, 4, 1);
}

#[test]
fn a_line_survives_small_edits_or_is_refused() {
    fn check(nv: &Region<'_, InOrder32>) {
        assert!(get(nv, 8) <= get(nv, 4), "ahead");
    }
    let old = explore(Mapped::new(64), |nv, _: &World<()>| {
        check(&nv);
        undo(&nv, 0, false)
    });
    let line = old
        .name("edit")
        .try_run()
        .unwrap_err()
        .line()
        .unwrap()
        .to_owned();
    // With one more store before it, the cut is found again.
    let edited = explore(Mapped::new(64), |nv, _: &World<()>| {
        check(&nv);
        undo(&nv, 0, true)
    });
    let e = edited.name("edit").replay(&line).try_run().unwrap_err();
    assert!(e.report().contains("found again"), "{e}");
    // Without the store, the line is refused.
    let other = explore(Mapped::new(64), |nv, _: &World<()>| {
        check(&nv);
        put(&nv, 12, 1);
    });
    let e = other.name("edit").replay(&line).try_run().unwrap_err();
    assert!(
        e.report().contains("has no `0x4#1=00000001` any more"),
        "{e}"
    );
    // With the bug fixed, the replay says that it passes.
    let right = explore(Mapped::new(64), |nv, _: &World<()>| {
        check(&nv);
        put(&nv, 4, 1);
        put(&nv, 8, 1);
    });
    let r = right.name("edit").replay(&line).try_run();
    assert_eq!(r.unwrap().boots, 1);
}

#[test]
#[cfg_attr(miri, ignore = "takes long")]
fn more_open_units_than_can_be_tried_are_sampled_and_it_says_so() {
    let many = || {
        explore(Mapped::<Buffered32>::new(256), |nv, _: &World<()>| {
            let sum = (0..32).map(|i| get(&nv, 4 * i)).sum::<u32>();
            assert!(sum <= 32);
            for i in 0..32 {
                put(&nv, 4 * i, 1);
            }
        })
    };
    let s = many().limit(200).run();
    assert!(s.sampled > 0 && format!("{s}").contains("sampled"), "{s}");
    // Units that are not read need no branching. Two units are read, so a cut needs at most five
    // boots.
    let s = explore(Mapped::<Buffered32>::new(256), |nv, _: &World<()>| {
        assert!(get(&nv, 4) <= 1 && get(&nv, 8) <= 1);
        for i in 0..32 {
            put(&nv, 4 * i, 1);
        }
    })
    .run();
    assert_eq!((s.sampled, s.boots), (0, 4), "{s:?}");
}

#[test]
fn cost_is_counted() {
    let mut user = Cost::default();
    let all = measure(Mapped::<InOrder32>::new(64), |nv, meter| {
        put(&nv, 0, 1);
        let before = meter.cost();
        let at = unsafe { nv.base().add(8) };
        mapped::lend(at, 8);
        unsafe { at.cast::<u32>().write(9) };
        mapped::end_loan(at, 8);
        user = meter.cost() - before;
        mapped::fence::<InOrder32>();
    });
    assert_eq!((all.stores, all.bytes, all.lent_bytes), (1, 4, 4));
    assert_eq!((user.stores, user.lent_bytes, user.loans), (0, 4, 1));
    let device = measure(Simulated::<SpiFram>::new(64), |mut nv, _| {
        nvmem::Medium::write(&mut nv, 3, &[1, 2, 3]).unwrap();
        nvmem::Medium::write(&mut nv, 9, &[1]).unwrap();
    });
    assert_eq!((device.bytes, device.bursts), (4, 2));
    let price = Price::serial("an SPI memory at 8 MHz that takes 10 mW", 8e6, 5, 10.0);
    let e = device.at(&price);
    assert!(
        (e.microseconds - 14.0).abs() < 1e-9 && (e.microjoules - 0.14).abs() < 1e-9,
        "{e:?}"
    );
    let flash = measure(Nor::stm32l1(), |mut nv, _| {
        nvmem::Medium::erase(&mut nv, 0, 512).unwrap();
        nvmem::Medium::write(&mut nv, 0, &[1; 8]).unwrap();
        assert!(
            nvmem::Medium::write(&mut nv, 4, &[1; 4]).is_err(),
            "written twice"
        );
    });
    assert_eq!((flash.erases, flash.stores), (2, 2));
}

/// The report names the line of the program whose store was cut, and who has called it. A build
/// without debug information has no lines.
#[test]
#[cfg_attr(miri, ignore = "looks at the stack")]
fn a_failure_names_the_line_of_the_store() {
    let wrong = explore_with(vec![13], Mapped::new(64), |nv, _: &World<()>, a| {
        sums(nv, a)
    });
    let e = wrong.name("named").try_run().unwrap_err();
    println!("{e}");
    let here = std::backtrace::Backtrace::force_capture().to_string();
    let (file, report) = ("tests/suite/campaigns.rs:", e.report());
    let cut = report.lines().skip_while(|l| !l.contains("cut 1"));
    let told: Vec<&str> = cut.filter(|l| l.contains(file)).collect();
    let functions = ["put", "add", "sums"];
    match here.contains(file) {
        true => {
            assert!(told.len() >= functions.len(), "{e}");
            let names = |(l, f): (&&str, &str)| l.contains(f);
            assert!(told.iter().zip(functions).all(names), "{e}");
        }
        false => assert!(told.is_empty(), "{e}"),
    }
}
