//! Eight buttons at a port with interrupts.

use crate::Chip;

/// An input port with a button at each pin, and a flag for each that was pressed. Each press has
/// the next number, from 1.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Buttons {
    down: u8,
    flags: u8,
    enabled: u8,
    pressed: u16,
    acknowledged: u16,
}

impl Buttons {
    /// The outside presses these buttons, all at once. It has the next number. Flags are set
    /// whether the interrupt is enabled or not.
    pub fn press(&mut self, buttons: u8) {
        self.down |= buttons;
        self.pressed = self.pressed.wrapping_add(1);
        self.flags |= buttons;
    }

    /// The outside lets them go.
    pub fn release(&mut self, buttons: u8) {
        self.down &= !buttons;
    }

    /// Reads the input register: which are down.
    pub fn input(&self) -> u8 {
        self.down
    }

    /// Reads the flags: which were pressed.
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// Clears flags: the program has seen these presses.
    pub fn clear(&mut self, flags: u8) {
        if self.flags & flags != 0 {
            self.acknowledged = self.pressed;
        }
        self.flags &= !flags;
    }

    /// Writes the interrupt enable register.
    pub fn enable(&mut self, buttons: u8) {
        self.enabled = buttons;
    }

    /// Reads it back.
    pub fn enabled(&self) -> u8 {
        self.enabled
    }

    /// Whether the port asks for an interrupt.
    pub fn interrupt(&self) -> bool {
        self.flags & self.enabled != 0
    }

    /// The number of the last press.
    pub fn pressed(&self) -> u16 {
        self.pressed
    }

    /// The number of the last press whose flag the program has cleared.
    pub fn acknowledged(&self) -> u16 {
        self.acknowledged
    }

    /// The numbers of an earlier run.
    pub fn set_numbers(&mut self, pressed: u16, acknowledged: u16) {
        (self.pressed, self.acknowledged) = (pressed, acknowledged);
    }
}

impl Chip for Buttons {
    fn reset(&mut self) {
        (self.flags, self.enabled) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_lost_with_the_power_and_a_number_is_not() {
        let mut b = Buttons::default();
        b.press(1);
        assert!(!b.interrupt(), "not enabled");
        b.clear(1);
        b.enable(3);
        b.press(2);
        assert!(b.interrupt());
        assert_eq!((b.flags(), b.input(), b.pressed()), (2, 3, 2));
        b.clear(2);
        assert_eq!((b.flags(), b.acknowledged()), (0, 2));
        b.press(1);
        b.reset();
        assert_eq!((b.flags(), b.enabled(), b.input()), (0, 0, 3));
        assert_eq!((b.pressed(), b.acknowledged()), (3, 2));
    }
}
