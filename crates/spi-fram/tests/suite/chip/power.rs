//! Data stored through the driver, with power cuts at every byte that the chip stores, two deep.

use crate::chip::bench::{Bench, Delay};
use nvmem::{Medium, Persist, Record};
use powerfail::{Simulated, World, explore};
use spi_fram::sim::Kind;
use spi_fram::{AsyncSpiFram, Error, Part, Protection, SpiFram};

/// The cells and the status register survive: two media of powerfail.
type Nv<'r> = (
    powerfail::Device<'r, powerfail::SpiFram>,
    powerfail::Device<'r, powerfail::SpiFram>,
);

fn chip(size: usize) -> (Simulated<powerfail::SpiFram>, Simulated<powerfail::SpiFram>) {
    (Simulated::new(size), Simulated::new(1))
}

const PART: Part = Part::new("small", 512).with_sleep(400);

/// The chip after power-up, and a driver on it.
fn boot(nv: Nv<'_>, burst: u32) -> SpiFram<impl embedded_hal::spi::SpiDevice<Error: Send>> {
    let (cells, status) = nv;
    let bench = Bench::new(Kind::of(PART), cells, status);
    let mut fram = SpiFram::new(bench.clone(), PART).with_max_burst(burst);
    fram.init(&mut Delay(bench))
        .expect("nothing but power cuts");
    fram
}

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

fn count<D: Medium>(nv: D, world: &World<'_, Promise>) {
    let mut r = Record::open(nv, 0..128, counter(0)).expect("nothing but power cuts");
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
        assert_eq!(r.get().n, n + 1);
        world.update(|p| p.seen = n + 1);
    }
}

#[test]
fn a_record_survives() {
    let s = explore(chip(512), |nv, world: &World<Promise>| {
        count(boot(nv, u32::MAX), world)
    })
    .depth(2)
    .run();
    println!("{s}");
    assert!(s.cuts > 1000, "{s}");
}

/// Short bursts: more write enables and addresses, the same guarantee.
#[test]
fn a_record_survives_in_short_bursts() {
    let s = explore(chip(512), |nv, world: &World<Promise>| {
        count(boot(nv, 3), world)
    })
    .depth(2)
    .run();
    println!("{s}");
    assert!(s.cuts > 1000, "{s}");
}

/// A write that is cut leaves exactly a prefix: the contract of the layers above.
#[test]
fn a_cut_leaves_a_prefix_of_the_write() {
    let s = explore(chip(512), |nv, world: &World<u32>| {
        let mut fram = boot(nv, 5);
        let mut found = [0; 24];
        fram.read(100, &mut found).expect("nothing but power cuts");
        let round = world.get() as u8;
        let new = found.iter().take_while(|b| **b == round).count();
        let old = round.saturating_sub(1);
        assert!(
            found[new..].iter().all(|b| *b == old),
            "{found:?} in {round}"
        );
        // Repeat the write that was cut, then the next ones.
        for round in world.get()..5 {
            world.set(round);
            fram.write(100, &[round as u8; 24])
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
    let s = explore(chip(512), |(cells, status), world: &World<u32>| {
        let bench = Bench::new(Kind::of(PART), cells, status);
        let mut fram = AsyncSpiFram::new(bench.clone(), PART).with_max_burst(7);
        embassy_futures::block_on(async {
            fram.init(&mut Delay(bench)).await.expect("only power cuts");
            let mut found = [0; 12];
            fram.read(500, &mut found).await.expect("only power cuts");
            let round = world.get() as u8;
            let new = found.iter().take_while(|b| **b == round).count();
            let old = round.saturating_sub(1);
            assert!(found[new..].iter().all(|b| *b == old), "{found:?}");
            for round in world.get()..4 {
                world.set(round);
                let bytes = [round as u8; 12];
                fram.write(500, &bytes).await.expect("only power cuts");
            }
        });
    })
    .depth(2)
    .run();
    println!("{s}");
    assert!(s.cuts > 100, "{s}");
}

/// Protection changes atomically and survives a cut; protected bytes keep their values.
#[test]
fn protection_survives() {
    let s = explore(chip(512), |nv, world: &World<u32>| {
        let mut fram = boot(nv, u32::MAX);
        let told = world.get();
        let status = fram.status().expect("nothing but power cuts");
        let half = status.protection() == Protection::UpperHalf;
        assert!(half || told < 2, "forgotten");
        assert!(!half || told >= 1, "out of nothing");
        if half {
            // Reads the protection with a new driver, which has to ask the chip.
            assert!(matches!(fram.write(300, &[9]), Err(Error::Protected)));
        }
        let mut kept = [0];
        fram.read(300, &mut kept).expect("nothing but power cuts");
        assert!(told == 0 || kept == [7], "{kept:?} at {told}");
        if told == 0 {
            fram.write(300, &[7]).expect("nothing but power cuts");
            world.set(1);
        }
        fram.protect(Protection::UpperHalf, false)
            .expect("nothing but power cuts");
        world.set(2);
        fram.write(0, &[1]).expect("nothing but power cuts");
        fram.sleep().expect("nothing but power cuts");
    })
    .depth(2)
    .run();
    println!("{s}");
    assert!(s.cuts > 3, "{s}");
}
