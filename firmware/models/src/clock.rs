//! A clock with a battery.

use crate::Chip;

/// A chip like a real-time clock, with a supply of its own: its alarm is not lost in a power cut.
/// With the alarm comes a number, which it keeps, too: by that a driver knows whether it has set
/// the alarm before a cut.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Clock {
    alarm: u16,
    number: u16,
    settings: u16,
}

impl Clock {
    /// Sets the alarm and its number, both at once.
    pub fn set(&mut self, alarm: u16, number: u16) {
        (self.alarm, self.number) = (alarm, number);
        self.settings = self.settings.wrapping_add(1);
    }

    /// Reads the alarm.
    pub fn alarm(&self) -> u16 {
        self.alarm
    }

    /// Reads the number of the alarm.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// How often the alarm was set: what the outside would notice of a call that is made twice.
    pub fn settings(&self) -> u16 {
        self.settings
    }

    /// The registers of an earlier run: alarm, number, and how often it was set.
    pub fn keep(&mut self, alarm: u16, number: u16, settings: u16) {
        (self.alarm, self.number, self.settings) = (alarm, number, settings);
    }
}

impl Chip for Clock {
    fn reset(&mut self) {}
}
