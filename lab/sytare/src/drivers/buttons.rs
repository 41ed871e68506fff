//! Two buttons at P1.1 and P1.2, which interrupt.

use super::reg::Reg;
use core::convert::Infallible;
use nv_device::Restore;

const P1OUT: Reg<u8> = Reg::at(0x0202);
const P1REN: Reg<u8> = Reg::at(0x0206);
const P1IES: Reg<u8> = Reg::at(0x0218);
const P1IE: Reg<u8> = Reg::at(0x021A);
const P1IFG: Reg<u8> = Reg::at(0x021C);
const BUTTONS: u8 = 3 << 1;

/// The buttons. Their context is which of them interrupt.
pub struct Buttons(());

impl Restore for Buttons {
    type Context = u8;
    type Parts = ();
    type Error = Infallible;
    fn restore(_: &mut (), enabled: &u8) -> Result<Self, Infallible> {
        // Resistors to the supply; a press is a falling edge.
        P1OUT.on(BUTTONS);
        P1REN.on(BUTTONS);
        P1IES.on(BUTTONS);
        P1IFG.off(BUTTONS);
        P1IE.on(enabled << 1 & BUTTONS);
        Ok(Buttons(()))
    }
}

impl Buttons {
    /// Which button was pressed, 0 or 1, and not [seen](Self::seen).
    #[inline(always)]
    pub fn pressed(&self) -> Option<u8> {
        match P1IFG.get() & BUTTONS {
            0 => None,
            flags => Some(u8::from(flags & 2 == 0)),
        }
    }

    /// What the interrupt has told is kept.
    #[inline(always)]
    pub fn seen(&self, button: u8) {
        P1IFG.off(2 << button)
    }
}
