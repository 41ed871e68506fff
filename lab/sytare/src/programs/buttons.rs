//! Counts how often buttons are pressed, to 20, and shows it on the LEDs. Interrupts tell of it.
//!
//! The interrupt ends the sleep. What it has told is stored before its flag is cleared, and from
//! then on it survives; the step that counts it takes it out of the ring, and its commit changes
//! the LEDs. So each press that was stored counts once.

use crate::drivers::{Buttons, Leds};
use crate::start::sleep;
use crate::{Found, Memory};
use nv_device::nv_replay::{Config, Error, Options, Outlet, Replay, last_committed};
use nv_device::nvmem::Region;
use nv_device::{
    Committed, Devices, Events, Members, Posted, Restore, Ring, Set, Staged, StagedDevice, bytes,
    open,
};

const PRESSES: u16 = 20;
/// Bytes of FRAM for the program.
const BYTES: usize = 448;

struct Node<'m> {
    presses: Events<'m, 8, Memory>,
    leds: StagedDevice<'m, Leds, Memory>,
    buttons: Buttons,
}

impl Devices for Node<'_> {
    #[inline(always)]
    fn list(&self) -> impl Members {
        (&self.presses, &self.leds)
    }
}

impl Node<'_> {
    /// The top half. A press for which there is no room waits in the port.
    fn top_half(&self) {
        while let Some(button) = self.buttons.pressed() {
            if self.presses.post(button.into()) != Posted::Stored {
                break;
            }
            self.buttons.seen(button);
        }
    }
}

type Contexts = (Ring<8>, Staged<u8>);

const TABLE: Config = Config {
    bytes: 32,
    outbox_bytes: 0,
    seq_bits: 8,
};

struct NoOutlet;
impl Outlet for NoOutlet {}

fn program(
    rt: &mut Replay<'_, [u16; 2], Memory, NoOutlet>,
    node: &Set<Node<'_>>,
) -> Result<(), Error> {
    rt.each_step_with(node, 0..PRESSES.into(), (), |step, counts, _, ()| {
        let node = step.token();
        // The bottom half.
        let press = loop {
            node.top_half();
            match node.presses.take(step)? {
                Some(press) => break press,
                None => sleep(),
            }
        };
        *counts.slot(step).at_mut(press.value as usize)? += 1;
        Ok(node.leds.change(step, |lit| *lit += 1)?)
    })
}

/// With `nv-device` and steps.
pub fn buttons(fram: Region<'static, Memory>) -> Option<Found> {
    let (contexts, rest) = fram.split_at(bytes::<Contexts, Memory>()).ok()?;
    let (rest, _) = rest.split_at(BYTES).ok()?;
    let number = last_committed(&rest).ok()?;
    let committed = Committed::of(number, &TABLE);
    let (presses, lit) = open::<Contexts, _>(contexts, committed, ((), 0)).ok()?;
    let node = Set::new(Node {
        presses,
        leds: StagedDevice::eager(lit, ()).ok()?,
        buttons: Buttons::restore(&mut (), &3).ok()?,
    });
    let options = Options {
        table: TABLE,
        ..Options::default()
    };
    let mut rt = Replay::open_with(rest, options, NoOutlet, |_| Ok([0; 2])).ok()?;
    program(&mut rt, &node).ok()?;
    let [a, b] = rt.view(|tx, counts| *counts.get(tx)).ok()??;
    Some([a + b, a, b, 0, 0, 0, 0, 0])
}

/// Bare.
pub fn buttons_bare(_: Region<'static, Memory>) -> Option<Found> {
    let mut leds = Leds::restore(&mut (), &0).ok()?;
    let buttons = Buttons::restore(&mut (), &3).ok()?;
    let mut counts = [0u16; 2];
    for count in 1..=PRESSES {
        let button = loop {
            match buttons.pressed() {
                Some(button) => break button,
                None => sleep(),
            }
        };
        buttons.seen(button);
        *counts.get_mut(usize::from(button))? += 1;
        leds.show(count as u8);
    }
    let [a, b] = counts;
    Some([a + b, a, b, 0, 0, 0, 0, 0])
}
