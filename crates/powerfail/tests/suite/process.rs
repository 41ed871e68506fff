//! Tests that need a process of their own: the watchdog, overflows of stacks, and repetition in a
//! fresh process. Each test runs this binary again.
#![cfg(not(miri))]
#![allow(clippy::undocumented_unsafe_blocks)] // toys: offsets are constants inside a small region

use nvmem::{InOrder32, Region};
use powerfail::{EveryEvents, Mapped, World, endure, explore};
use std::process::{Command, Output};
use std::time::Duration;

fn counter(nv: Region<'_, InOrder32>, world: &World<u32>) {
    let n = unsafe { nv.load(0) };
    assert!(n >= world.get());
    for n in n..5 {
        unsafe { nv.store(0, n + 1) };
        world.acknowledge(n + 1);
    }
}

/// Runs one of the ignored tests below.
fn again(test: &str, env: &[(&str, &str)]) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args([
            &format!("process::{test}"),
            "--exact",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .envs(env.iter().copied())
        .output()
        .unwrap()
}

#[test]
#[ignore = "hangs on purpose"]
fn hangs() {
    explore(Mapped::<InOrder32>::new(64), |nv, _: &World<()>| {
        if unsafe { nv.load(0) } == 1 && unsafe { nv.load(4) } == 0 {
            loop {
                std::hint::spin_loop();
            }
        }
        unsafe { nv.store(0, 1) };
        unsafe { nv.store(4, 1) };
    })
    .name("hangs")
    .boot_timeout(Duration::from_millis(600))
    .run();
}

#[test]
fn the_watchdog_ends_a_loop_without_events() {
    let out = again("hangs", &[]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(101), "{said}");
    assert!(said.contains("before 0x4 = 1"), "{said}");
    assert!(said.contains("POWERFAIL='hangs@in-order-32@"), "{said}");
}

#[test]
#[ignore = "hangs on purpose"]
fn hangs_late() {
    endure(
        Mapped::<InOrder32>::new(64),
        EveryEvents(3),
        |nv, world: &World<u32>| {
            let n = unsafe { nv.load(0) };
            unsafe { nv.store(0, n + 1) };
            if n > 100 {
                loop {
                    std::hint::spin_loop();
                }
            }
            world.set(n);
        },
        |n| *n,
    )
    .name("hangs_late")
    .boot_timeout(Duration::from_millis(600))
    .run();
}

#[test]
fn the_watchdog_of_an_endurance_prints_a_line_that_hangs_again() {
    let said = |env: &[(&str, &str)]| {
        let out = again("hangs_late", env);
        assert_eq!(out.status.code(), Some(101));
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let line = |said: &str| {
        let from = said.find("POWERFAIL='").expect(said) + "POWERFAIL='".len();
        said[from..].split('\'').next().unwrap().to_owned()
    };
    // The lives follow another schedule, which the line holds.
    let first = said(&[("POWERFAIL_SEED", "5")]);
    assert!(line(&first).contains("every=3,to=5,seed=5,depth=1,boot=101@"));
    assert!(
        first.contains("after 101 power cuts: the boot does not end"),
        "{first}"
    );
    let replayed = said(&[("POWERFAIL", &line(&first))]);
    assert_eq!(line(&replayed), line(&first));
    let other = line(&first).replace("boot=101", "boot=7");
    let survives = again("hangs_late", &[("POWERFAIL", &other)]);
    assert!(survives.status.success(), "{survives:?}");
}

/// Calls itself until the stack is full.
fn recurses(depth: u32) -> u32 {
    let frame = std::hint::black_box([depth; 64]);
    if depth == u32::MAX {
        return 0;
    }
    recurses(depth + 1) + std::hint::black_box(frame)[3]
}

#[test]
#[ignore = "overflows on purpose"]
fn overflows() {
    explore(Mapped::<InOrder32>::new(64), |nv, w: &World<()>| {
        // After a cut.
        let full = unsafe { nv.load(0) } == 1 && unsafe { nv.load(4) } == 0;
        w.threads(|t| {
            t.spawn("small", 1, || unsafe { nv.store(0, 1) });
            t.spawn("large", 1, || {
                let n = if full { recurses(0) } else { 1 };
                unsafe { nv.store(4, n) }
            });
        });
    })
    .name("overflows")
    .run();
}

#[test]
fn a_stack_that_overflows_is_named() {
    let out = again("overflows", &[]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(101), "{said}");
    let what = "thread `large` has overflowed its stack";
    assert!(said.contains(what), "{said}");
    let from = said.find("POWERFAIL='overflows@").expect("a line") + "POWERFAIL='".len();
    let line = said[from..].split('\'').next().unwrap();
    let again = again("overflows", &[("POWERFAIL", line)]);
    let said = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(101), "{said}");
    assert!(said.contains(what), "{said}");
}

/// A fault that is no overflow ends the process as it does without this crate.
#[test]
#[ignore = "faults on purpose"]
fn faults() {
    explore(Mapped::<InOrder32>::new(64), |_, w: &World<()>| {
        w.threads(|t| {
            t.spawn("low", 1, || unsafe {
                std::hint::black_box(std::ptr::without_provenance_mut::<u32>(64)).write_volatile(1)
            });
        });
    })
    .run();
}

#[test]
fn another_fault_ends_the_process_with_its_signal() {
    use std::os::unix::process::ExitStatusExt;
    let out = again("faults", &[]);
    // SIGSEGV.
    assert_eq!(out.status.signal(), Some(11), "{out:?}");
}

/// A passing campaign before the failing ones, which the fresh process must skip.
fn sound() {
    let s = explore(Mapped::<InOrder32>::new(64), counter).run();
    assert!(s.partial || s.boots > 1, "{s}");
}

#[test]
#[ignore = "fails on purpose"]
fn leaks_a_counter() {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static BOOTS: AtomicU32 = AtomicU32::new(0);
    sound();
    explore(Mapped::<InOrder32>::new(128), |nv, _: &World<()>| {
        // Two boots in one process fail in the same way.
        let recovers = unsafe { nv.load(0) } == 1;
        assert!(
            !recovers || BOOTS.fetch_add(1, Relaxed) < 12,
            "too many boots"
        );
        for k in 0..20 {
            unsafe { nv.store(4 * k, 1) };
        }
    })
    .run();
}

#[test]
#[ignore = "fails on purpose"]
fn leaks_a_cache() {
    use std::sync::OnceLock;
    static CACHE: OnceLock<u32> = OnceLock::new();
    sound();
    explore(Mapped::<InOrder32>::new(64), |nv, _: &World<()>| {
        // Filled by the first boot and then unchanged, so compared boots agree.
        let cached = *CACHE.get_or_init(|| unsafe { nv.load(0) });
        assert_eq!(cached, unsafe { nv.load(0) }, "stale");
        unsafe { nv.store(0, 1) };
    })
    .run();
}

#[test]
#[ignore = "fails on purpose"]
fn fails_truly() {
    sound();
    explore(Mapped::<InOrder32>::new(64), |nv, _: &World<()>| {
        assert_eq!(unsafe { nv.load(4) }, unsafe { nv.load(0) }, "half");
        unsafe { nv.store(0, 1) };
        unsafe { nv.store(4, 1) };
    })
    .run();
}

#[test]
#[ignore = "fails on purpose"]
fn fails_alone() {
    explore(Mapped::<InOrder32>::new(64), |nv, _: &World<()>| {
        assert_eq!(unsafe { nv.load(4) }, unsafe { nv.load(0) }, "half");
        unsafe { nv.store(0, 1) };
        unsafe { nv.store(4, 1) };
    })
    .run();
}

/// Repeated in the same process, the failure comes again. A fresh process shows that the process
/// caused it.
#[test]
fn a_failure_is_repeated_in_a_fresh_process() {
    let said = |test, env: &[(&str, &str)]| {
        let out = again(test, env);
        assert_eq!(out.status.code(), Some(101));
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let leaked = said("leaks_a_counter", &[]);
    assert!(
        leaked.contains("in a fresh process the same executions survive"),
        "{leaked}"
    );
    let off = said("leaks_a_counter", &[("POWERFAIL_FRESH", "0")]);
    assert!(
        off.contains("replay this") && !off.contains("fresh process"),
        "{off}"
    );
    // The boot before the cut fills the cache in the fresh process, too, so it fails there like any
    // other.
    let stale = said("leaks_a_cache", &[]);
    assert!(
        stale.contains("stale") && !stale.contains("fresh process"),
        "{stale}"
    );
    let truly = said("fails_truly", &[]);
    assert!(
        truly.contains("replay this") && !truly.contains("fresh process"),
        "{truly}"
    );
}

/// A line from another build is of other code; only the same execution is accepted.
#[test]
fn a_line_of_a_build_with_other_features_is_refused() {
    let out = again("fails_alone", &[("POWERFAIL_FRESH", "0")]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    let from = said.find("POWERFAIL='").unwrap() + "POWERFAIL='".len();
    let line = said[from..].split('\'').next().unwrap();
    let parts: Vec<&str> = line.split('@').collect();
    let here = parts.get(5).copied().unwrap_or_default();
    if cfg!(feature = "sabotage") {
        assert_eq!(here, "sabotage", "{line}");
        assert!(said.contains("cargo test --features sabotage "), "{said}");
    } else {
        assert_eq!(here, "", "{line}");
    }
    let replay = |cut: &str, hash: &str, features: &str| {
        let line = format!(
            "{}@in-order-32@{}@{cut}@{hash}@{features}",
            parts[0], parts[2]
        );
        let out = again("fails_alone", &[("POWERFAIL", &line)]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        (out.status.success(), said)
    };
    let (cut, hash) = (parts[3], parts[4]);
    let (_, same) = replay(cut, hash, "other,more");
    assert!(same.contains("replayed exactly"), "{same}");
    // Before the first store the program is correct, so a replay would pass silently.
    for (cut, hash) in [
        (cut, "0"),
        ("0x0#1=00000001", "0"),
        ("0x30#1=00000001", "0"),
    ] {
        let (passes, said) = replay(cut, hash, "other,more");
        let why = "the line is of a test with the features other,more, and this one has ";
        assert!(!passes && said.contains(why), "{said}");
    }
    let (passes, said) = replay("0x0#1=00000001", "0", here);
    let survives = "fails_alone: replayed in a program that has changed: survives";
    assert!(passes && said.contains(survives), "{said}");
}

/// The fresh process replays its line and reports the outcome.
#[test]
fn the_fresh_process_reports_the_outcome() {
    let line = {
        let out = again("fails_truly", &[("POWERFAIL_FRESH", "0")]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        let from = said.find("POWERFAIL='").unwrap() + "POWERFAIL='".len();
        said[from..].split('\'').next().unwrap().to_owned()
    };
    let file = std::env::temp_dir().join(format!("powerfail-fresh-{}", std::process::id()));
    let says = |number: u32, line: &str| {
        let asked = format!("{number}@{}", file.display());
        again(
            "fails_truly",
            &[("POWERFAIL", line), ("POWERFAIL_FRESH", &asked)],
        );
        let said = std::fs::read_to_string(&file).unwrap_or_default();
        let _ = std::fs::remove_file(&file);
        said
    };
    assert_eq!(says(2, &line), "failed");
    // The first campaign of the test executes differently.
    assert_eq!(says(1, &line), "elsewhere");
    assert_eq!(says(3, &line), "", "there are two");
    let other = line.splitn(6, '@').take(4).collect::<Vec<_>>().join("@");
    assert_eq!(says(2, &format!("{other}@00000000")), "elsewhere");
}
