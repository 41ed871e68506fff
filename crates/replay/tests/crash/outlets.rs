//! A program whose outlet is there in some lives only.

use super::programs::{Outside, Setup, W};
use nv_replay::nvmem::{Buffered32, Region};
use nv_replay::pmem_tx;
use nv_replay::{Message, Options, Outlet, Port, Replay};
use powerfail::{Mapped, explore};

static PORT: Port<[u32; 3]> = Port::new(1);

/// Each message has its number as its content.
struct Whole;
impl Outlet for Whole {
    fn send(&mut self, m: &Message<'_>) {
        let words = m.get(&PORT).expect("the port").expect("three words");
        assert_eq!(words, [m.number; 3], "message {}", m.number);
    }
}

/// In every second life nobody is there to whom a message could be told: those that are on their way then are dropped, and none is
/// told with the content of another.
fn comes_and_goes(nv: Region<'_, Buffered32>, world: &W<'_>) {
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
        comes_and_goes(nv, world)
    })
    .world(Outside::default())
    .depth(2)
    .run();
    assert!(s.part || s.boots > 20, "{s}");
}
