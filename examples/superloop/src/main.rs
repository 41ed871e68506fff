//! The super-loop on a host, through a thousand power cuts.

use example_superloop::{Log, RADIO, program};
use nv_replay::{Message, Options, Outlet, Replay};
use nvmem::InOrder32;
use powerfail::{EveryEvents, Mapped, World, endure};

/// The receiver: it keeps the last number that was sent, over all power cuts.
struct Air<'w, 'r>(&'w World<'r, u32>);

impl Outlet for Air<'_, '_> {
    fn send(&mut self, m: &Message<'_>) {
        let (sent, last) = (m.get(&RADIO), self.0.get());
        // Messages arrive at least once and in order; no reading is lost or counted twice.
        let again = sent == Some(Ok(last));
        assert!(again || sent == Some(Ok(last + 1)), "{sent:?} after {last}");
        self.0.set(last + u32::from(!again));
    }
}

/// Boots the device. On a real device the region is a section of the linker script.
fn boot(region: nvmem::Region<'_, InOrder32>, world: &World<'_, u32>) {
    let mut air = Air(world);
    let options = Options {
        outlet: Some(&mut air),
        ..Options::default()
    };
    let mut rt = Replay::open(region, options, |_| Ok(Log::default())).expect("opens");
    let Err(e) = program(&mut rt);
    panic!("the loop has ended: {e}");
}

fn main() {
    let fram = Mapped::<InOrder32>::new(2048);
    // The measure of progress: readings that were sent.
    let life = endure(fram, EveryEvents(400), boot, |sent| *sent)
        .depth(2)
        .run();
    println!("{} power cuts, and no reading lost", life.cuts);
}

#[test]
fn survives() {
    main()
}
