//! The store under power cuts, including cuts of the recovery.

use example_settings::Settings;
use powerfail::{Explore, Nor, Simulated, SpiNor, World, explore};

fn naive() -> Explore<Simulated<SpiNor>, u32> {
    explore(Nor::spi().size(2 * 4096), |nv, world: &World<u32>| {
        let mut s = Settings::open_naive(nv).unwrap();
        assert!(s.get() >= world.last_acknowledged(), "read {}", s.get());
        while s.get() < 3 {
            s.set(s.get() + 1).unwrap();
            world.acknowledge(s.get());
        }
    })
    .field("slot0.seq", 0..4)
    .field("slot0.value", 4..8)
    .field("slot0.check", 8..12)
    .field("slot1.seq", 4096..4100)
    .field("slot1.value", 4100..4104)
    .field("slot1.check", 4104..4108)
}

#[test]
fn the_naive_store_survives_any_single_cut() {
    naive().run();
}

#[test]
fn the_naive_store_loses_a_setting_when_the_power_fails_twice() {
    let found = naive().depth(2).try_run().expect_err("a lost setting");
    println!("{found}");
    assert_eq!(found.cuts(), 2);
    assert!(found.report().contains("unstable"), "{found}");
    let line = found.line().expect("a line that replays it");
    let again = naive()
        .depth(2)
        .replay(line)
        .try_run()
        .expect_err("the same");
    assert!(again.report().contains("replayed exactly"), "{again}");
}

#[test]
fn settings_survive() {
    let s = explore(Nor::spi().size(2 * 4096), |nv, world: &World<u32>| {
        let mut s = Settings::open(nv).unwrap();
        assert!(s.get() >= world.last_acknowledged(), "read {}", s.get());
        while s.get() < 3 {
            s.set(s.get() + 1).unwrap();
            world.acknowledge(s.get());
        }
    })
    .depth(2)
    .run();
    println!("{s}");
    assert!(s.partial || s.boots > 1000, "{s}");
}
