//! The super-loop on a host, through a thousand power cuts.

use core::convert::Infallible;
use embedded_hal::i2c::{ErrorType, I2c, Operation};
use example_superloop::{Board, Log, RADIO, program};
use nv_replay::{Message, NotNow, Options, Outlet, Replay};
use nvmem::InOrder32;
use powerfail::{EveryEvents, Mapped, World, endure};

/// A bus with a thermometer that says 21 degrees.
struct Bus;

impl ErrorType for Bus {
    type Error = Infallible;
}

impl I2c for Bus {
    fn transaction(&mut self, _: u8, all: &mut [Operation<'_>]) -> Result<(), Infallible> {
        for operation in all {
            if let Operation::Read(bytes) = operation {
                bytes.copy_from_slice(&[21, 0]);
            }
        }
        Ok(())
    }
}

/// The receiver: it keeps the last number that was sent, over all power cuts.
struct Air<'w, 'r>(&'w World<'r, u32>);

impl Outlet for Air<'_, '_> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let (sent, last) = (m.get(&RADIO), self.0.get());
        // Messages arrive at least once and in order; no reading is lost or counted twice.
        let again = sent == Some(Ok(last));
        assert!(again || sent == Some(Ok(last + 1)), "{sent:?} after {last}");
        self.0.set(last + u32::from(!again));
        Ok(())
    }
}

/// Boots the device. On a real device the region is a section of the linker script.
fn boot(region: nvmem::Region<'_, InOrder32>, world: &World<'_, u32>) {
    let board = Board {
        i2c: Bus,
        radio: Air(world),
    };
    let options = Options::default();
    let mut rt = Replay::open_with(region, options, board, |_| Ok(Log::default())).expect("opens");
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
