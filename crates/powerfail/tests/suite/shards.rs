//! Sharded campaigns, several threads, and environment variables. Each test runs this binary again.
#![cfg(not(miri))]
#![allow(clippy::undocumented_unsafe_blocks)] // toys: offsets are constants inside a small region

use nvmem::{Buffered32, InOrder32, Region, mapped};
use powerfail::{EveryEvents, Mapped, Nor, Summary, World, endure, explore, random};
use std::collections::BTreeSet;
use std::process::{Command, Output};

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
            &format!("shards::{test}"),
            "--exact",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        // The whole test run may have one.
        .env_remove("POWERFAIL_SAMPLE")
        .envs(env.iter().copied())
        .output()
        .unwrap()
}

#[test]
#[ignore = "run by others"]
fn counts() {
    explore(Mapped::<InOrder32>::new(64), counter)
        .name("counts")
        .depth(3)
        .run();
}

/// Many states; several cuts lead to the same ones.
fn many(nv: &impl Fn(usize, u32), w: &World<(u32, u32)>) {
    w.update(|w| w.1 += 1);
    for k in 0..24 {
        nv(4 * k, w.get().1);
    }
}

#[test]
#[ignore = "run by others"]
fn counts_many() {
    let s = explore(
        Mapped::<InOrder32>::new(128),
        |nv, w: &World<(u32, u32)>| many(&|at, v| unsafe { nv.store(at, v) }, w),
    )
    .name("counts_many")
    .depth(3)
    .run();
    assert!(s.partial || s.boots > 3_000, "{s}");
}

#[test]
#[ignore = "run by others"]
fn counts_one_in_three() {
    let s = explore(
        Mapped::<InOrder32>::new(128),
        |nv, w: &World<(u32, u32)>| many(&|at, v| unsafe { nv.store(at, v) }, w),
    )
    .name("counts_one_in_three")
    .depth(3)
    .one_in(3)
    .run();
    let all = std::env::var("POWERFAIL_SAMPLE").is_ok_and(|s| s == "all");
    let part = std::env::var_os("POWERFAIL_SHARD").is_some();
    assert_eq!(s.partial, !all || part, "{s:?}");
}

#[test]
#[ignore = "run by others"]
fn counts_shallow() {
    let s = explore(Mapped::<InOrder32>::new(64), counter)
        .name("counts_shallow")
        .run();
    assert!(!s.partial && s.depth == 1, "{s:?}");
}

#[test]
#[ignore = "run by others"]
fn counts_capped() {
    let s = explore(Mapped::<InOrder32>::new(64), counter)
        .name("counts_capped")
        .depth(2)
        .max_depth(2)
        .run();
    assert!(!s.partial, "{s:?}");
}

#[test]
#[ignore = "run by others"]
fn counts_buffered() {
    explore(Mapped::<Buffered32>::new(64), |nv, _: &World<()>| {
        let n = unsafe { nv.load(0) };
        for k in 0..4 {
            assert!(unsafe { nv.load(4 * k) } <= n + 1);
            unsafe { nv.store(4 * k, n + 1) };
        }
        mapped::fence::<Buffered32>();
    })
    .name("counts_buffered")
    .depth(3)
    .run();
}

/// How many cells [`lists_its_boots`] stores in each boot.
const CELLS: usize = 12;

/// Prints the state that each boot finds. The world remembers what the boots before it have found,
/// so no two cuts leave the same state, but for those that change nothing.
#[test]
#[ignore = "run by others"]
fn lists_its_boots() {
    explore(
        Mapped::<InOrder32>::new(64),
        |nv, w: &World<Vec<[u32; CELLS]>>| {
            let found: [u32; CELLS] = std::array::from_fn(|k| unsafe { nv.load(4 * k) });
            eprintln!("boot {:?} {found:?}", w.get());
            w.update(|w| w.push(found));
            for k in 0..CELLS {
                unsafe { nv.store(4 * k, w.get().len() as u32) };
            }
        },
    )
    .name("lists_its_boots")
    .depth(2)
    .run();
}

/// Each cut leaves up to 2^12 states, and a boot reads all of them.
#[test]
#[ignore = "run by others"]
fn counts_a_sample() {
    explore(Mapped::<Buffered32>::new(64), |nv, _: &World<()>| {
        let bits = (0..12).fold(0_u32, |bits, k| bits << 1 | unsafe { nv.load(4 * k) });
        // Mixed as only states are that are drawn at random.
        let mixed = bits.count_ones() == 6 && (bits ^ bits >> 1).count_ones() > 4;
        assert!(!mixed || std::env::var_os("MIXED_FAILS").is_none());
        for k in 0..12 {
            unsafe { nv.store(4 * k, 1) };
        }
    })
    .name("counts_a_sample")
    .sample(16)
    .run();
}

#[test]
#[ignore = "run by others"]
fn counts_flash() {
    explore(Nor::stm32l1(), |mut nv, w: &World<u32>| {
        w.set(w.get() + 1);
        nvmem::Medium::erase(&mut nv, 0, 256).unwrap();
        nvmem::Medium::write(&mut nv, 0, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    })
    .name("counts_flash")
    .depth(2)
    .run();
}

#[test]
#[ignore = "run by others"]
fn counts_a_chain() {
    endure(
        Mapped::<InOrder32>::new(64),
        EveryEvents(3),
        |nv, w: &World<u32>| counter(nv, w),
        |n| *n,
    )
    .name("counts_a_chain")
    .boots(50)
    .run();
}

#[test]
#[ignore = "fails on purpose"]
fn counts_a_failure() {
    explore(Mapped::<InOrder32>::new(64), |nv, _: &World<()>| {
        assert_eq!(unsafe { nv.load(4) }, unsafe { nv.load(0) });
        unsafe { nv.store(0, 1) };
        unsafe { nv.store(4, 1) };
    })
    .name("counts_a_failure")
    .run();
}

/// The line that the campaign of this name writes to the file of statistics: cuts, boots, failed.
fn stats(name: &str, env: &[(&str, &str)], passes: bool) -> [u64; 3] {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static FILES: AtomicU32 = AtomicU32::new(0);
    let file = std::env::temp_dir().join(format!(
        "powerfail-{}-stats-{}",
        std::process::id(),
        FILES.fetch_add(1, Relaxed)
    ));
    let mut all = env.to_vec();
    all.push(("POWERFAIL_STATS", file.to_str().unwrap()));
    let out = again(name, &all);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.success(), passes, "{said}");
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let _ = std::fs::remove_file(&file);
    let mut sum = [0; 3];
    for line in text.lines() {
        let mut words = line.split(' ');
        assert_eq!(words.next(), Some(name));
        for n in &mut sum {
            *n += words.next().unwrap().parse::<u64>().unwrap();
        }
    }
    sum
}

fn shards(name: &str) -> ([u64; 3], Vec<[u64; 3]>) {
    let whole = stats(name, &[], true);
    let parts = ["1/3", "2/3", "3/3"].map(|s| stats(name, &[("POWERFAIL_SHARD", s)], true));
    (whole, parts.to_vec())
}

/// One shard counts each cut, and one boots each state.
#[test]
fn shards_together_judge_exactly_the_cuts_of_the_whole() {
    for name in ["counts", "counts_many", "counts_flash", "counts_a_chain"] {
        let (whole, parts) = shards(name);
        let sum = [0, 1, 2].map(|k| parts.iter().map(|p| p[k]).sum::<u64>());
        assert_eq!(sum, whole, "{name}: {parts:?}");
        if name == "counts_many" {
            assert!(parts.iter().all(|p| p[1] > whole[1] / 5), "{parts:?}");
        }
    }
}

/// The states that a process boots, by what they hold: depth 1 or 2, with or without a share.
fn boots(depth: &str, shard: Option<&str>) -> BTreeSet<String> {
    let shard = shard.map(|s| ("POWERFAIL_SHARD", s));
    let env: Vec<_> = [("POWERFAIL_DEPTH", depth)]
        .into_iter()
        .chain(shard)
        .collect();
    let out = again("lists_its_boots", &env);
    assert!(out.status.success());
    let said = String::from_utf8(out.stderr).unwrap();
    let lines = said.lines().filter(|l| l.starts_with("boot "));
    lines.map(str::to_owned).collect()
}

/// Every share boots the states that lead to the last level, so that it can cut them. The states
/// of the last level are divided: none is in two shares, and none is in no share.
#[test]
fn three_shares_are_disjoint_and_complete_at_depth_1_and_2() {
    let mut before: BTreeSet<_> = [format!("boot [] {:?}", [0; CELLS])].into();
    for (depth, states) in [("1", CELLS + 1), ("2", (CELLS + 1) * (CELLS + 1))] {
        let whole = boots(depth, None);
        let shares = ["1/3", "2/3", "3/3"].map(|s| boots(depth, Some(s)));
        let last = &whole - &before;
        assert_eq!(last.len(), states, "depth {depth}: {last:?}");
        let mut seen = BTreeSet::new();
        for share in &shares {
            assert!(share.is_superset(&before), "depth {depth}");
            for state in share - &before {
                assert!(last.contains(&state), "depth {depth}: {state}");
                assert!(!seen.contains(&state), "depth {depth}, twice: {state}");
                seen.insert(state);
            }
            assert!(share.len() > before.len(), "depth {depth}: nothing");
        }
        assert_eq!(seen, last, "depth {depth}");
        before = whole;
    }
}

/// If one boot decides which others exist, two shards may reach the same state.
#[test]
fn shards_of_a_buffered_medium_judge_each_cut_once() {
    let (whole, parts) = shards("counts_buffered");
    assert_eq!(
        parts.iter().map(|p| p[0]).sum::<u64>(),
        whole[0],
        "{parts:?}"
    );
    assert!(
        parts.iter().map(|p| p[1]).sum::<u64>() >= whole[1],
        "{parts:?} of {whole:?}"
    );
}

#[test]
fn a_cut_that_is_not_survived_is_counted() {
    let [cuts, boots, failed] = stats("counts_a_failure", &[], false);
    assert!(failed == 1 && boots > 0, "{cuts} {boots} {failed}");
    assert_eq!(stats("counts", &[], true)[2], 0);
}

#[test]
fn the_environment_deepens_what_cuts_recovery() {
    let at = |name, depth| stats(name, &[("POWERFAIL_DEPTH", depth)], true);
    let whole = stats("counts_many", &[], true);
    assert_eq!(at("counts_many", "3"), whole);
    assert!(at("counts_many", "1")[1] < whole[1] / 10, "{whole:?}");
    let flash = stats("counts_flash", &[], true);
    assert!(at("counts_flash", "3")[1] > flash[1], "{flash:?}");
    assert_eq!(
        at("counts_shallow", "3"),
        stats("counts_shallow", &[], true)
    );
    assert_eq!(at("counts_capped", "9"), at("counts_capped", "2"));
}

#[test]
fn a_sample_differs_from_run_to_run_and_all_states_can_be_booted() {
    let boots = |sample: &str| stats("counts_a_sample", &[("POWERFAIL_SAMPLE", sample)], true)[1];
    let (all, some) = (boots("all"), boots("1"));
    assert!(all == 1 << 12 && some < all / 10, "{all} {some}");
    assert_eq!(stats("counts_a_sample", &[], true)[1], boots("0"));
    let failed = |seed| {
        let env = [("POWERFAIL_SAMPLE", seed), ("MIXED_FAILS", "1")];
        let said = String::from_utf8(again("counts_a_sample", &env).stderr).unwrap();
        let line = said.lines().find(|l| l.starts_with("replay this:"));
        line.unwrap_or_else(|| panic!("{said}")).to_owned()
    };
    let one = failed("1");
    assert_eq!(one, failed("1"));
    assert_ne!(one, failed("77"));
}

/// So many runs boot all states, each of them once; and so do the shards of these runs.
#[test]
fn one_in_so_many_states_is_another_one_in_each_run() {
    let name = "counts_one_in_three";
    let run = |env: &[(&str, &str)]| stats(name, env, true);
    let whole = run(&[("POWERFAIL_SAMPLE", "all")]);
    assert_eq!(whole, stats("counts_many", &[], true));
    let runs = ["7", "8", "9"].map(|i| run(&[("POWERFAIL_SAMPLE", i)]));
    let sum = [0, 1, 2].map(|k| runs.iter().map(|r| r[k]).sum::<u64>());
    assert_eq!(sum, whole, "{runs:?}");
    assert!(runs.iter().all(|r| r[1] > whole[1] / 5), "{runs:?}");
    assert_eq!(run(&[]), run(&[("POWERFAIL_SAMPLE", "9")]));
    let shards =
        ["1/2", "2/2"].map(|shard| run(&[("POWERFAIL_SAMPLE", "8"), ("POWERFAIL_SHARD", shard)]));
    let sum = [0, 1, 2].map(|k| shards.iter().map(|s| s[k]).sum::<u64>());
    assert_eq!(sum, runs[1], "{shards:?}");
}

#[test]
fn a_campaign_that_passes_says_what_it_explored_when_asked() {
    let said = |name, env: &[(&str, &str)]| {
        let out = again(name, env);
        assert!(out.status.success());
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let ask = ("POWERFAIL_SUMMARY", "1");
    let [cuts, boots, _] = stats("counts", &[], true);
    let line = format!("powerfail: counts on in-order-32: {cuts} cuts, {boots} boots, depth 3\n");
    assert!(said("counts", &[ask]).contains(&line), "{line}");
    assert!(!said("counts", &[]).contains("powerfail:"));
    let life = "powerfail: counts_a_chain on in-order-32: ";
    let chain = said("counts_a_chain", &[ask]);
    assert!(
        chain.contains(life) && chain.contains("progress with lives of 2 events and more"),
        "{chain}"
    );
    let some = "powerfail: counts_some on in-order-32: ";
    assert_eq!(said("counts_some", &[ask]).matches(some).count(), 1);
    let part = said("counts_many", &[ask, ("POWERFAIL_SHARD", "1/3")]);
    assert!(part.contains("a part of the campaign"), "{part}");
}

#[test]
#[ignore = "run by others"]
fn counts_some() {
    random(
        0..9_u32,
        || Mapped::<InOrder32>::new(64),
        |nv, _: &World<()>, n| unsafe { nv.store(0, n + 1) },
    )
    .cases(3)
    .name("counts_some")
    .run();
}

#[test]
fn a_line_in_the_environment_is_for_the_campaign_that_it_names() {
    let other = again("counts", &[("POWERFAIL", "else@in-order-32@0@end@0")]);
    assert!(other.status.success());
    let wrong = again("counts", &[("POWERFAIL", "counts@in-order-32@0@end@0")]);
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(
        !wrong.status.success()
            && said.contains("cannot replay: the line is of another initial image"),
        "{said}"
    );
}

#[test]
fn threads_find_what_one_finds() {
    let run = |threads| -> Summary {
        explore(
            Mapped::<InOrder32>::new(128),
            |nv, w: &World<(u32, u32)>| many(&|at, v| unsafe { nv.store(at, v) }, w),
        )
        .depth(3)
        .threads(threads)
        .run()
    };
    let (one, three) = (run(1), run(3));
    assert!(one.boots > 3_000, "{one}");
    assert_eq!((one.boots, one.cuts), (three.boots, three.cuts));
}

/// Hundreds of states fail at the third cut, each reached from several others at the same time. The
/// one that a single thread reaches first is the slowest; it is reported all the same.
#[test]
fn the_first_failure_is_the_same_with_any_number_of_threads() {
    fn program(nv: Region<'_, InOrder32>, w: &World<u32>) {
        // A boot that is cut after n stores increments the first n cells.
        let at = |k: usize| unsafe { nv.load(4 * k) };
        let runs = |n: u32| (0..30).filter(|&k| at(k) >= n).count();
        let (long, middle, short) = (runs(1), runs(2), runs(3));
        let bad = w.get() == 3 && long == middle + 1 && short >= 3;
        assert!(!bad, "cut after {short}, {middle}, {long}");
        if w.get() == 2 && (long + middle) % 2 == 0 {
            (0..100_000).for_each(|n| _ = std::hint::black_box(n));
        }
        if w.get() < 3 {
            w.set(w.get() + 1);
        }
        for k in 0..30 {
            unsafe { nv.store(4 * k, at(k) + 1) };
        }
    }
    let line = |threads| {
        let e = explore(Mapped::<InOrder32>::new(128), program)
            .depth(3)
            .threads(threads)
            .try_run()
            .expect_err("the planted bug");
        assert_eq!(e.cuts(), 3, "{e}");
        e.line().unwrap().to_owned()
    };
    let one = line(1);
    for _ in 0..5 {
        for threads in [2, 8] {
            assert_eq!(line(threads), one);
        }
    }
}
