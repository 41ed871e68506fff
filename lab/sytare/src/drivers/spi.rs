//! The serial bus to the radio: eUSCI_B0, three wires, and a chip select on P1.3.

use super::Silent;
use super::reg::Reg;
use crate::start::{mark, phase};
use nv_device::Restore;

const P1IN: Reg<u8> = Reg::at(0x0200);
const P1OUT: Reg<u8> = Reg::at(0x0202);
const P1DIR: Reg<u8> = Reg::at(0x0204);
const P1SEL1: Reg<u8> = Reg::at(0x020C);
const P2SEL1: Reg<u8> = Reg::at(0x020D);
const UCB0CTLW0: Reg<u16> = Reg::at(0x0640);
const UCB0BRW: Reg<u16> = Reg::at(0x0646);
const UCB0STATW: Reg<u16> = Reg::at(0x0648);
const UCB0RXBUF: Reg<u16> = Reg::at(0x064C);
const UCB0TXBUF: Reg<u16> = Reg::at(0x064E);
const UCB0IFG: Reg<u16> = Reg::at(0x066C);

/// Data is captured on the first edge, the upper bit comes first, master, synchronous; SMCLK.
const MASTER: u16 = 0xA900 | 0x0080;
const RESET: u16 = 1;
const RXIFG: u16 = 1;
const TXIFG: u16 = 2;
const BUSY: u16 = 1;
/// P1.3: chip select. P1.6, P1.7 and P2.2: the bus.
const SELECT: u8 = 1 << 3;
const SOMI: u8 = 1 << 7;
const P1_BUS: u8 = 3 << 6;
const P2_BUS: u8 = 1 << 2;

/// The bus. Its rate is SMCLK over the context: 3 is 5.3 MHz, and the radio takes 6.5.
pub struct Spi(());

impl Restore for Spi {
    type Context = u16;
    type Parts = ();
    type Error = Silent;
    fn restore(_: &mut (), divider: &u16) -> Result<Self, Silent> {
        mark(phase::BUS);
        P1OUT.on(SELECT);
        P1DIR.on(SELECT);
        P1SEL1.on(P1_BUS);
        P2SEL1.on(P2_BUS);
        UCB0CTLW0.set(MASTER | RESET);
        UCB0BRW.set(*divider);
        UCB0CTLW0.set(MASTER);
        mark(phase::BUS + 1);
        Ok(Spi(()))
    }
}

impl Spi {
    /// Selects the chip, and waits until it is ready: it says so on the line of its data. Both are
    /// undone when the result is dropped. **Errors**: it is not ready after a millisecond.
    pub fn select(&self) -> Result<Selected, Silent> {
        P1OUT.off(SELECT);
        let selected = Selected(());
        for _ in 0..2000 {
            if !P1IN.has(SOMI) {
                return Ok(selected);
            }
        }
        Err(Silent)
    }
}

/// The chip is selected.
pub struct Selected(());

impl Selected {
    /// Sends a byte. Returns the one that comes meanwhile.
    #[inline(always)]
    pub fn transfer(&self, byte: u8) -> u8 {
        UCB0TXBUF.set(byte.into());
        while !UCB0IFG.has(RXIFG) {}
        UCB0RXBUF.get() as u8
    }

    /// Sends bytes one right behind the other, and drops what comes meanwhile.
    #[inline(always)]
    pub fn write(&self, bytes: &[u8]) {
        for byte in bytes {
            while !UCB0IFG.has(TXIFG) {}
            UCB0TXBUF.set((*byte).into());
        }
        while UCB0STATW.has(BUSY) {}
        UCB0RXBUF.get();
    }
}

impl Drop for Selected {
    fn drop(&mut self) {
        P1OUT.on(SELECT)
    }
}
