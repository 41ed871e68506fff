//! Data stored through the driver, with power cuts at every byte that the chip stores, two deep.

use crate::chip::bench::Slow;
use i2c_fram::sim::{Chip, Wires};
use i2c_fram::{AsyncI2cFram, I2cFram, Part};
use nvmem::{Persist, Record};
use powerfail::{Device, Simulated, SpiFram, World, explore};
use std::cell::RefCell;

/// Two blocks of one address byte each. The cells survive: a byte device of powerfail.
const PART: Part = Part::new("small", 512);
type Nv<'r> = Device<'r, SpiFram>;

#[derive(Persist, Debug, Clone, Copy, PartialEq)]
#[repr(C)]
struct Counter {
    n: u32,
    not: u32,
}

fn counter(n: u32) -> Counter {
    Counter { n, not: !n }
}

/// The value that the outside world saw last, and the value being written since.
#[derive(Clone, Hash, Debug, Default)]
struct Promise {
    seen: u32,
    tried: u32,
}

/// A record across both blocks counts to three.
fn count(nv: Nv<'_>, world: &World<'_, Promise>, burst: u32) {
    let chip = RefCell::new(Chip::new(PART, nv));
    let mut fram = I2cFram::new(Wires(&chip), PART).with_max_burst(burst);
    fram.init().expect("nothing but power cuts");
    let mut r = Record::open(fram, 192..320, counter(0)).expect("nothing but power cuts");
    let found = *r.get();
    assert_eq!(found, counter(found.n), "a mixture");
    let p = world.get();
    assert!(found.n == p.seen || found.n == p.tried, "{found:?} {p:?}");
    world.set(Promise {
        seen: found.n,
        tried: found.n,
    });
    for n in found.n..3 {
        world.update(|p| p.tried = n + 1);
        r.set(counter(n + 1)).expect("nothing but power cuts");
        world.update(|p| p.seen = n + 1);
    }
}

#[test]
fn a_record_survives() {
    let s = explore(Simulated::<SpiFram>::new(512), |nv, w: &World<Promise>| {
        count(nv, w, u32::MAX)
    })
    .depth(2)
    .run();
    println!("{s}");
    assert!(s.cuts > 1000, "{s}");
}

/// Short bursts: more addresses, the same guarantee.
#[test]
fn a_record_survives_in_short_bursts() {
    let s = explore(Simulated::<SpiFram>::new(512), |nv, w: &World<Promise>| {
        count(nv, w, 3)
    })
    .depth(2)
    .run();
    println!("{s}");
    assert!(s.cuts > 1000, "{s}");
}

/// What a cut has left of a write of this round over the one before.
fn check_prefix(found: &[u8], round: u8) {
    let new = found.iter().take_while(|b| **b == round).count();
    let old = round.saturating_sub(1);
    assert!(
        found[new..].iter().all(|b| *b == old),
        "{found:?} in {round}"
    );
}

#[test]
fn a_cut_leaves_a_prefix_of_the_write() {
    let s = explore(Simulated::<SpiFram>::new(512), |nv, world: &World<u32>| {
        let chip = RefCell::new(Chip::new(PART, nv));
        let mut fram = I2cFram::new(Wires(&chip), PART).with_max_burst(5);
        let mut found = [0; 24];
        fram.read(244, &mut found).expect("nothing but power cuts");
        check_prefix(&found, world.get() as u8);
        // Repeat the write that was cut, then the next ones.
        for round in world.get()..5 {
            world.set(round);
            fram.write(244, &[round as u8; 24])
                .expect("nothing but power cuts");
        }
    })
    .depth(2)
    .run();
    println!("{s}");
    assert!(s.cuts > 100, "{s}");
}

/// The async driver gives the same guarantee.
#[test]
fn a_cut_leaves_a_prefix_of_the_async_write() {
    let s = explore(Simulated::<SpiFram>::new(512), |nv, world: &World<u32>| {
        let chip = RefCell::new(Chip::new(PART, nv));
        let mut fram = AsyncI2cFram::new(Slow(&chip), PART).with_max_burst(7);
        embassy_futures::block_on(async {
            let mut found = [0; 12];
            fram.read(250, &mut found).await.expect("only power cuts");
            check_prefix(&found, world.get() as u8);
            for round in world.get()..4 {
                world.set(round);
                fram.write(250, &[round as u8; 12])
                    .await
                    .expect("only power cuts");
            }
        });
    })
    .depth(2)
    .run();
    println!("{s}");
    assert!(s.cuts > 100, "{s}");
}
