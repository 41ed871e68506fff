//! A port with eight lamps.

use crate::Chip;

/// An output port with a lamp at each pin. A pin is an input after a reset, and its lamp is dark.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Leds {
    output: u8,
    direction: u8,
    seen: u8,
    changes: u16,
}

impl Leds {
    /// Writes the output register.
    pub fn write(&mut self, levels: u8) {
        self.output = levels;
        self.look();
    }

    /// Reads it back.
    pub fn output(&self) -> u8 {
        self.output
    }

    /// Writes the direction register: a 1 makes an output.
    pub fn set_direction(&mut self, outputs: u8) {
        self.direction = outputs;
        self.look();
    }

    /// Reads it back.
    pub fn direction(&self) -> u8 {
        self.direction
    }

    /// The lamps that are lit.
    pub fn lit(&self) -> u8 {
        self.output & self.direction
    }

    /// What the outside saw last while the power was on, after the first lamp was lit in that time.
    pub fn seen(&self) -> u8 {
        self.seen
    }

    /// How often that has changed, modulo 65536.
    pub fn changes(&self) -> u16 {
        self.changes
    }

    /// What the outside has seen, from an earlier run.
    pub fn set_seen(&mut self, seen: u8, changes: u16) {
        (self.seen, self.changes) = (seen, changes);
    }

    fn look(&mut self) {
        // A pin that is no output yet shows nothing.
        if self.direction != 0 && self.seen != self.lit() {
            self.seen = self.lit();
            self.changes = self.changes.wrapping_add(1);
        }
    }
}

impl Chip for Leds {
    fn reset(&mut self) {
        (self.output, self.direction) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outside_remembers_what_it_saw() {
        let mut leds = Leds::default();
        leds.write(5);
        assert_eq!((leds.lit(), leds.seen()), (0, 0));
        leds.set_direction(0xFF);
        assert_eq!((leds.lit(), leds.seen()), (5, 5));
        leds.write(6);
        leds.reset();
        assert_eq!((leds.lit(), leds.output(), leds.seen()), (0, 0, 6));
        assert_eq!(leds.changes(), 2);
    }
}
