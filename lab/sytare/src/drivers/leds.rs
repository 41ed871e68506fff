//! Eight LEDs at port 3.

use super::reg::Reg;
use core::convert::Infallible;
use nv_device::{Apply, Restore};

const P3OUT: Reg<u8> = Reg::at(0x0222);
const P3DIR: Reg<u8> = Reg::at(0x0224);

/// The LEDs. Their context is what they show.
pub struct Leds(());

impl Restore for Leds {
    type Context = u8;
    type Parts = ();
    type Error = Infallible;
    fn restore(_: &mut (), lit: &u8) -> Result<Self, Infallible> {
        P3OUT.set(*lit);
        P3DIR.set(0xFF);
        Ok(Leds(()))
    }
    #[inline(always)]
    fn apply(&mut self, lit: &u8) -> Result<Apply, Infallible> {
        self.show(*lit);
        Ok(Apply::Done)
    }
}

impl Leds {
    /// Shows these.
    #[inline(always)]
    pub fn show(&mut self, lit: u8) {
        P3OUT.set(lit)
    }
}
