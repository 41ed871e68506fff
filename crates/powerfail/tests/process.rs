//! What needs a process of its own: the watchdog, shards, the environment. Each test runs this binary again.
#![cfg(not(miri))]
#![allow(clippy::undocumented_unsafe_blocks)] // toys: offsets are constants inside a small region

use nvmem::{InOrder32, Region};
use powerfail::{Mapped, Summary, World, explore};
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
            test,
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
    .patience(Duration::from_millis(600))
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
#[ignore = "run by others"]
fn counts() {
    explore(Mapped::<InOrder32>::new(64), |nv, w| counter(nv, w))
        .name("counts")
        .depth(3)
        .run();
}

fn stats(env: &[(&str, &str)]) -> Vec<[u64; 2]> {
    let file = std::env::temp_dir().join(format!("powerfail-{}-{:?}", std::process::id(), env));
    let file = file
        .to_str()
        .unwrap()
        .replace(['"', ' ', '(', ')', ','], "_");
    let file = file.replace("/3", "-3");
    let mut all = env.to_vec();
    all.push(("POWERFAIL_STATS", &file));
    let out = again("counts", &all);
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let lines = text.lines().map(|l| {
        let mut words = l.split(' ');
        assert_eq!(words.next(), Some("counts"));
        [0; 2].map(|_| words.next().unwrap().parse().unwrap())
    });
    lines.collect()
}

#[test]
fn shards_cover_what_the_whole_covers() {
    let [whole] = stats(&[])[..] else { panic!() };
    let mut cuts = 0;
    for shard in ["1/3", "2/3", "3/3"] {
        let [part] = stats(&[("POWERFAIL_SHARD", shard)])[..] else {
            panic!()
        };
        assert!(part[1] > 0 && part[1] < whole[1], "{part:?} of {whole:?}");
        cuts += part[0];
    }
    // Cuts of the first run are divided; what they lead to is explored by each shard that reaches it.
    assert!(cuts >= whole[0], "{cuts} of {whole:?}");
}

#[test]
fn a_line_in_the_environment_is_for_the_campaign_that_it_names() {
    let other = again("counts", &[("POWERFAIL", "else@in-order-32@0@end@0")]);
    assert!(other.status.success());
    let wrong = again("counts", &[("POWERFAIL", "counts@in-order-32@0@end@0")]);
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(
        !wrong.status.success() && said.contains("cannot replay: the first image"),
        "{said}"
    );
}

#[test]
fn threads_find_what_one_finds() {
    let run = |threads| -> Summary {
        explore(
            Mapped::<InOrder32>::new(128),
            |nv, w: &World<(u32, u32)>| {
                w.update(|w| w.1 += 1);
                let n = unsafe { nv.load(0) };
                for k in 0..24 {
                    unsafe { nv.store(4 * k, n + w.get().1) };
                }
            },
        )
        .depth(3)
        .threads(threads)
        .run()
    };
    let (one, three) = (run(1), run(3));
    assert!(one.boots > 3_000, "{one}");
    assert_eq!(one.boots, three.boots);
}
