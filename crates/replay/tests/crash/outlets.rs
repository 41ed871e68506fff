//! A program that has an outlet only in some boots.

use super::programs::{Setup, W, WorldState};
use nv_replay::nvmem::{Buffered32, Region};
use nv_replay::pmem_tx;
use nv_replay::{Message, Options, Outlet, Port, Replay};
use powerfail::{Mapped, explore};

static PORT: Port<[u32; 3]> = Port::new(1);

/// The content of each message is its number.
struct Whole;
impl Outlet for Whole {
    fn send(&mut self, m: &Message<'_>) {
        let words = m.get(&PORT).expect("the port").expect("three words");
        assert_eq!(words, [m.number; 3], "message {}", m.number);
    }
}

/// Every second life has no outlet: messages pending then are dropped. No message is ever sent with
/// the content of another.
fn every_second_life_has_an_outlet(nv: Region<'_, Buffered32>, world: &W<'_>) {
    world.update(|w| w.reads += 1);
    let mut whole = Whole;
    let options = Options {
        table: Setup::small(16).table,
        pool: Some(pmem_tx::Config::SMALL),
        outlet: match world.get().reads % 2 {
            1 => Some(&mut whole),
            _ => None,
        },
        ..Options::default()
    };
    let mut rt = Replay::<u32, _>::open(nv, options, |_| Ok(0)).unwrap();
    for i in 0..4 {
        rt.step(i, |tx, _, i| tx.send(&PORT, [i; 3])).unwrap();
    }
    world.update(|w| w.done = true);
}

#[test]
fn buffered_32() {
    let s = explore(Mapped::<Buffered32>::new(2048), |nv, world: &W<'_>| {
        every_second_life_has_an_outlet(nv, world)
    })
    .world(WorldState::default())
    .depth(2)
    .run();
    assert!(s.partial || s.boots > 20, "{s}");
}
