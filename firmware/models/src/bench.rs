//! The bench: all chips behind one page of registers, as the scenarios of the suite use them.

use crate::radio::{self, Timing, register};
use crate::{Adc, Buttons, Chip, Clock, Leds, Radio, Timer};
use relume_suite::abi::bench::*;

/// Bytes that a power cut leaves: see [`Bench::kept`].
pub const KEPT: usize = 24;

/// Where in [`Bench::kept`] the number of a mistake is.
const MISTAKE: usize = 13;

/// What is wrong, by its number less 1. The first ones are the outside's.
const MISTAKES: &[&str] = &[
    "a packet on a channel on which nobody listens",
    "a packet of another length",
    "a packet is missing before this one",
    "two packets of one number differ",
    "the mean in a packet is not what the sensor measures",
    "an access to a register that the bench does not have",
    "the ADC converts while it is off",
    "the ADC's result is read, and there is none",
    "the radio is spoken to before its crystal is stable",
    "a mistake of a driver",
];
const CHANNEL_WRONG: u8 = 1;
const LENGTH: u8 = 2;
const MISSING: u8 = 3;
const DIFFER: u8 = 4;
const MEAN: u8 = 5;
const NO_REGISTER: u8 = 6;

/// The chips, and what the outside has seen of them.
///
/// The outside knows what it may see: each packet is two words, its number and the mean of ten
/// readings; numbers follow each other, and two packets of one number are the same. What is wrong
/// is kept in [`Bench::mistake`], over power cuts, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bench {
    /// A port with lamps.
    pub leds: Leds,
    /// A port with buttons.
    pub buttons: Buttons,
    /// A timer.
    pub timer: Timer,
    /// An ADC.
    pub adc: Adc,
    /// A radio.
    pub radio: Radio,
    /// A clock with a battery.
    pub clock: Clock,
    /// The byte that SPI has brought last.
    received: u8,
    /// The last press whose number was read.
    event: u16,
    /// The alarm that waits for its number.
    alarm: u16,
    /// Flags of presses that the program has cleared, by their numbers modulo 16.
    cleared: u16,
    /// The last packet: its number, and the mean.
    arrived: [u16; 2],
    mistake: u8,
}

/// Some polls for each, as in the data sheet, at [`ACCESS_NS`] for an access.
const TIMING: Timing = Timing {
    start_up_ns: 3 * ACCESS_NS,
    settle_ns: 2 * ACCESS_NS,
    calibrate_ns: 4 * ACCESS_NS,
};

impl Bench {
    /// A bench that was never used, without power.
    pub fn new() -> Self {
        Bench {
            leds: Leds::default(),
            buttons: Buttons::default(),
            timer: Timer::default(),
            adc: Adc::new(2 * ACCESS_NS),
            radio: Radio::new(TIMING),
            clock: Clock::default(),
            received: 0,
            event: 0,
            alarm: 0,
            cleared: 0,
            arrived: [0; 2],
            mistake: 0,
        }
    }

    /// The power comes on, after a time from which this was [`kept`](Bench::kept).
    pub fn power_on(&mut self, kept: &[u8; KEPT]) {
        *self = Bench::new();
        let word = |at: usize| u16::from_le_bytes([kept[at], kept[at + 1]]);
        self.leds.set_seen(kept[0], 0);
        self.buttons.set_numbers(word(2), 0);
        self.cleared = word(4);
        self.arrived = [word(8), word(10)];
        self.mistake = kept[MISTAKE];
        self.clock.keep(word(14), word(16), word(18));
        self.radio.reset();
        self.adc.reset();
    }

    /// What a power cut now would leave: the registers of the clock, and what the outside knows.
    ///
    /// ```text
    ///  0 lamps seen   2 last press   4 cleared flags   8 last packet, 10 its mean   13 mistake
    ///  14 alarm   16 its number   18 how often it was set   the rest is 0
    /// ```
    pub fn kept(&self) -> [u8; KEPT] {
        let mut out = [0; KEPT];
        out[0] = self.leds.seen();
        out[MISTAKE] = self.mistake;
        let words = [
            (2, self.buttons.pressed()),
            (4, self.cleared),
            (8, self.arrived[0]),
            (10, self.arrived[1]),
            (14, self.clock.alarm()),
            (16, self.clock.number()),
            (18, self.clock.settings()),
        ];
        for (at, word) in words {
            out[at..at + 2].copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// What is wrong, of what a power cut leaves.
    pub fn mistake(kept: &[u8]) -> Option<&'static str> {
        let n = usize::from(*kept.get(MISTAKE)?);
        let last = MISTAKES.len();
        (n != 0).then(|| MISTAKES[n.min(last) - 1])
    }

    /// A program reads a register.
    pub fn read(&mut self, register: u16) -> u16 {
        self.before(register);
        let value = match register {
            LEDS => self.leds.output().into(),
            DIRECTION => self.leds.direction().into(),
            INPUT => self.buttons.input().into(),
            FLAGS => self.buttons.flags().into(),
            ENABLE => self.buttons.enabled().into(),
            REFERENCE => self.adc.reference(),
            SOURCE => self.adc.input().into(),
            CONVERT => self.adc.busy().into(),
            RESULT => self.adc.result(),
            SELECT => self.radio.ready().into(),
            SPI => self.received.into(),
            ALARM => self.clock.alarm(),
            NUMBER => self.clock.number(),
            EVENT => {
                self.event = self.buttons.pressed();
                self.event
            }
            PERIOD => (self.timer.period() / ACCESS_NS) as u16,
            EXPIRED => self.timer.expired().into(),
            LIT => self.leds.lit().into(),
            SEEN => self.leds.seen().into(),
            PRESSED => self.buttons.pressed(),
            CLEARED => self.cleared,
            ARRIVED => self.arrived[0],
            TUNED => {
                let channel = self.radio.register(register::CHANNR);
                u16::from_le_bytes([channel, self.radio.power()])
            }
            SETTINGS => self.clock.settings(),
            _ => {
                self.wrong(NO_REGISTER);
                0
            }
        };
        self.after();
        value
    }

    /// A program writes a register.
    pub fn write(&mut self, register: u16, value: u16) {
        self.before(register);
        match register {
            LEDS => self.leds.write(value as u8),
            DIRECTION => self.leds.set_direction(value as u8),
            FLAGS => {
                if self.buttons.flags() & value as u8 != 0 {
                    self.cleared |= 1 << (self.event & 15);
                }
                if self.event == self.buttons.pressed() {
                    self.buttons.clear(value as u8);
                }
            }
            ENABLE => self.buttons.enable(value as u8),
            REFERENCE => self.adc.set_reference(value),
            SOURCE => self.adc.set_input(value as u8),
            CONVERT => {
                let n = (self.adc.conversions() & 7) as u16;
                let level = SENSOR_MV + n * (RIPPLE_MV / 7);
                self.adc.set_level(SENSOR as u8, level);
                self.adc.start();
            }
            SELECT => self.radio.select(value & 1 != 0),
            SPI => self.received = self.radio.transfer(value as u8),
            ALARM => self.alarm = value,
            NUMBER => self.clock.set(self.alarm, value),
            PERIOD => self.timer.set_period(u64::from(value) * ACCESS_NS),
            EXPIRED => self.timer.clear(),
            PRESS => self.press(value as u8),
            _ => self.wrong(NO_REGISTER),
        }
        self.after();
    }

    /// The outside presses a button, if the program has enabled its interrupt. Then that is the
    /// timer's, which each machine has.
    pub fn interrupt(&mut self) {
        if self.buttons.enabled() != 0 {
            self.press(1);
        }
    }

    fn press(&mut self, buttons: u8) {
        self.buttons.press(buttons);
        self.buttons.release(buttons);
    }

    /// An access is about to happen. Those to what is the outside's take no time.
    fn before(&mut self, register: u16) {
        if register < OUTSIDE {
            self.timer.elapse(ACCESS_NS);
            self.adc.elapse(ACCESS_NS);
            self.radio.elapse(ACCESS_NS);
        }
    }

    fn after(&mut self) {
        for packet in self.radio.take_sent() {
            self.judge(&packet);
        }
        for said in [self.adc.mistake(), self.radio.mistake()]
            .into_iter()
            .flatten()
        {
            let known = MISTAKES.iter().position(|m| *m == said);
            self.wrong(known.map_or(MISTAKES.len(), |n| n + 1) as u8);
        }
    }

    fn judge(&mut self, packet: &radio::Packet) {
        if packet.channel != CHANNEL {
            return self.wrong(CHANNEL_WRONG);
        }
        let [a, b, c, d] = packet.bytes[..] else {
            return self.wrong(LENGTH);
        };
        let new = [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])];
        if new[0] == self.arrived[0] {
            if new != self.arrived {
                self.wrong(DIFFER);
            }
            return;
        }
        if new[0] != self.arrived[0].wrapping_add(1) {
            return self.wrong(MISSING);
        }
        let reads = |mv: u16| u32::from(mv) * 4095 / u32::from(REFERENCE_MV);
        let range = reads(SENSOR_MV)..=reads(SENSOR_MV + RIPPLE_MV) + 1;
        if !range.contains(&new[1].into()) {
            self.wrong(MEAN);
        }
        self.arrived = new;
    }

    fn wrong(&mut self, what: u8) {
        if self.mistake == 0 {
            self.mistake = what;
        }
    }
}

impl Default for Bench {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends bytes on SPI, as a driver does.
    fn spi(d: &mut Bench, bytes: &[u8]) {
        d.write(SELECT, 1);
        while d.read(SELECT) == 0 {}
        for b in bytes {
            d.write(SPI, (*b).into());
        }
        d.write(SELECT, 0);
    }

    fn sends(d: &mut Bench, number: u8, mean: u16) {
        spi(d, &[register::CHANNR, CHANNEL]);
        let [low, high] = mean.to_le_bytes();
        spi(d, &[0x7F, 4, number, 0, low, high]);
        spi(d, &[radio::strobe::STX]);
        for _ in 0..100 {
            d.read(SPI);
        }
    }

    #[test]
    fn the_outside_judges_packets() {
        let mistakes = |packets: &[(u8, u16)]| {
            let mut d = Bench::new();
            for (number, mean) in packets {
                let kept = d.kept();
                d.power_on(&kept);
                sends(&mut d, *number, *mean);
            }
            Bench::mistake(&d.kept())
        };
        assert_eq!(mistakes(&[(1, 2050), (2, 2060)]), None);
        assert_eq!(mistakes(&[(1, 2050), (1, 2050)]), None);
        assert_eq!(mistakes(&[(1, 2050), (1, 2051)]), Some(MISTAKES[3]));
        assert_eq!(mistakes(&[(2, 2050)]), Some(MISTAKES[2]));
        assert_eq!(mistakes(&[(1, 2000)]), Some(MISTAKES[4]));
    }

    #[test]
    fn what_is_kept_is_found_again() {
        let mut d = Bench::new();
        d.power_on(&[0; KEPT]);
        assert_eq!(d.kept(), [0; KEPT]);
        d.write(LEDS, 5);
        d.write(DIRECTION, 0xFF);
        d.write(ALARM, 300);
        d.write(NUMBER, 2);
        d.write(PRESS, 1);
        assert_eq!(d.read(EVENT), 1);
        d.write(FLAGS, 1);
        assert_eq!(d.read(FLAGS), 0);
        d.write(ENABLE, 1);
        d.interrupt();
        sends(&mut d, 1, 2050);
        let kept = d.kept();
        let mut again = Bench::new();
        again.power_on(&kept);
        assert_eq!(again.kept(), kept);
        let read = |r| again.clone().read(r);
        assert_eq!((read(LIT), read(SEEN), read(LEDS)), (0, 5, 0));
        assert_eq!((read(ALARM), read(NUMBER), read(SETTINGS)), (300, 2, 1));
        assert_eq!((read(PRESSED), read(CLEARED), read(FLAGS)), (2, 2, 0));
        assert_eq!((read(ARRIVED), read(TUNED)), (1, 0xC600));
        // Nothing is enabled any more.
        again.interrupt();
        assert_eq!(again.read(PRESSED), 2);
    }

    #[test]
    fn one_access_changes_few_bytes_of_what_is_kept() {
        // Rigs log what an access has changed as one store.
        let mut d = Bench::new();
        d.power_on(&[0; KEPT]);
        let before = d.kept();
        d.write(ALARM, 0xFFFF);
        d.write(NUMBER, 0xFFFF);
        d.arrived = [1, 1];
        d.mistake = 1;
        let after = d.kept();
        let changed: Vec<_> = (0..KEPT).filter(|i| before[*i] != after[*i]).collect();
        assert!(changed[changed.len() - 1] - changed[0] < 16);
    }

    #[test]
    fn the_sensor_and_what_a_driver_does_wrong() {
        let mut d = Bench::new();
        d.power_on(&[0; KEPT]);
        d.write(REFERENCE, REFERENCE_MV);
        d.write(SOURCE, SENSOR);
        let mut reads = Vec::new();
        for _ in 0..3 {
            d.write(CONVERT, 1);
            while d.read(CONVERT) != 0 {}
            reads.push(d.read(RESULT));
        }
        assert_eq!(reads, [2048, 2064, 2080]);
        assert_eq!(Bench::mistake(&d.kept()), None);
        d.read(RESULT);
        assert_eq!(Bench::mistake(&d.kept()), Some(MISTAKES[7]));
        d.write(99, 0);
        assert_eq!(
            Bench::mistake(&d.kept()),
            Some(MISTAKES[7]),
            "the first one"
        );
    }
}
