//! The serial port of a LaunchPad's debug probe: eUSCI_A0 at 9,600 baud, on P2.0.

use core::ptr::{read_volatile, write_volatile};

const P2SEL1: *mut u8 = 0x020D as *mut u8;
const UCA0CTLW0: *mut u16 = 0x05C0 as *mut u16;
const UCA0BRW: *mut u16 = 0x05C6 as *mut u16;
const UCA0MCTLW: *mut u16 = 0x05C8 as *mut u16;
const UCA0TXBUF: *mut u16 = 0x05CE as *mut u16;
const UCA0IFG: *mut u16 = 0x05DC as *mut u16;

/// UCA0CTLW0: SMCLK, and held in reset.
const SMCLK: u16 = 0x0080;
const RESET: u16 = 1;
/// UCA0IFG: the transmit buffer is empty.
const TXIFG: u16 = 2;

/// Sets the port up. The clock is that of a reset, 1 MHz.
pub fn begin() {
    // SAFETY: registers of the port, which nothing else uses; the values for 9,600 baud are those
    // of the family's user's guide.
    unsafe {
        write_volatile(UCA0CTLW0, SMCLK | RESET);
        write_volatile(UCA0BRW, 6);
        write_volatile(UCA0MCTLW, 0x2081);
        write_volatile(P2SEL1, read_volatile(P2SEL1) | 1);
        write_volatile(UCA0CTLW0, SMCLK);
    }
}

/// Sends a text. Returns when the last byte is on its way.
pub fn text(text: &str) {
    text.bytes().for_each(byte);
}

/// Sends a number in decimal.
pub fn number(n: u16) {
    let mut digits = [0; 5];
    let (mut left, mut first) = (n, digits.len());
    loop {
        first -= 1;
        if let Some(d) = digits.get_mut(first) {
            *d = b'0' + (left % 10) as u8;
        }
        left /= 10;
        if left == 0 || first == 0 {
            break;
        }
    }
    digits.iter().skip(first).copied().for_each(byte);
}

fn byte(b: u8) {
    // SAFETY: registers of the port.
    unsafe {
        while read_volatile(UCA0IFG) & TXIFG == 0 {}
        write_volatile(UCA0TXBUF, b.into());
    }
}
