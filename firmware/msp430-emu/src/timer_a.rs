//! Timer A with its first capture/compare register, and the flag of the second one.
//!
//! From SLAU367 (MSP430FR58xx, FR59xx), chapter "Timer_A": the modes and when flags are set, the
//! interrupts, and the registers with their bits. Base address and vectors of TA0 are those of
//! SLASE54 (MSP430FR5994), "Peripheral Register Memory Map" and "Interrupt Vector Addresses".
//!
//! ```text
//!  up mode      0 1 2 ... CCR0 0 1 ...        CCIFG when it reaches CCR0, TAIFG when it reaches 0
//!  continuous   0 1 2 ... CCR0 ... FFFF 0     the same
//!  up/down      0 1 ... CCR0 ... 1 0 1        the same
//! ```
//!
//! Its clock is the CPU's: SMCLK, undivided before the timer's own dividers. With another clock
//! source it does not count. The flag in CCTL1 is set by programs only, which interrupts as if the
//! count were reached. Captures, outputs and the other compare registers are not there.

use crate::cpu::Cpu;
use std::ops::RangeInclusive;

/// Offsets of the registers.
const CTL: u16 = 0x00;
const CCTL0: u16 = 0x02;
const CCTL1: u16 = 0x04;
const R: u16 = 0x10;
const CCR0: u16 = 0x12;
const EX0: u16 = 0x20;
const IV: u16 = 0x2e;
const LAST: u16 = 0x2f;

/// In CTL: the clock source and SMCLK, the divider, the mode.
const TASSEL: u16 = 0x0300;
const SMCLK: u16 = 0x0200;
const ID: u16 = 6;
const MC: u16 = 0x0030;
const UP: u16 = 0x0010;
const CONTINUOUS: u16 = 0x0020;
const TACLR: u16 = 0x0004;
const TAIE: u16 = 0x0002;
const TAIFG: u16 = 0x0001;
/// In CCTL0 and CCTL1.
const CCIE: u16 = 0x0010;
const CCIFG: u16 = 0x0001;
/// In IV: the flag of CCTL1, or TAIFG, is pending; the first one has priority.
const COMPARE_1: u16 = 0x02;
const OVERFLOW: u16 = 0x0e;

/// The registers of TA0 of an MSP430FR5994, from its control register to its interrupt vector.
pub(crate) const TA0: RangeInclusive<u16> = 0x0340..=0x036f;

/// A timer. Its registers lie in the CPU's memory; here is the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerA {
    /// The address of its control register.
    base: u16,
    /// The vector of CCR0; that of the other interrupts is the one below.
    vector: u16,
    /// Whether it counts by itself.
    counts: bool,
    /// Up to which cycle it has counted.
    at: u64,
    /// In up/down mode, it counts down.
    down: bool,
}

impl TimerA {
    /// TA0 of an MSP430FR5994, stopped.
    pub fn ta0() -> Self {
        TimerA {
            base: *TA0.start(),
            vector: 0xffea,
            counts: true,
            at: 0,
            down: false,
        }
    }

    /// The same without a clock: it reaches CCR0 when [`Cpu::timer_compares`] is called.
    pub fn by_hand(self) -> Self {
        TimerA {
            counts: false,
            ..self
        }
    }
}

/// Positions in a period, counted from 0.
struct Period {
    /// How long it is.
    counts: u64,
    /// Where CCR0 is reached.
    compare: u64,
    /// Where it is now.
    now: u64,
}

impl Period {
    /// Counts from now until it is at a position again, at least 1.
    fn until(&self, position: u64) -> u64 {
        let n = (position + self.counts - self.now) % self.counts;
        if n == 0 { self.counts } else { n }
    }
}

impl Cpu {
    /// Connects a timer, or none. Its registers are as after a reset.
    pub fn set_timer(&mut self, timer: Option<TimerA>) {
        self.timer = timer.map(|t| TimerA {
            at: self.cycles,
            ..t
        });
        if let Some(t) = self.timer {
            for offset in [CTL, CCTL0, CCTL1, R, CCR0, EX0, IV] {
                let at = t.base + offset;
                self.set_word(at, 0);
            }
        }
        self.schedule();
    }

    /// The timer as it stands.
    pub fn timer(&self) -> Option<TimerA> {
        self.timer
    }

    /// The timer reaches CCR0 now, unless it is stopped.
    pub fn timer_compares(&mut self) {
        let Some(t) = self.timer else { return };
        if self.word(t.base + CTL) & MC == 0 {
            return;
        }
        self.count_timer();
        self.set_word(t.base + R, self.word(t.base + CCR0));
        self.set_word(t.base + CCTL0, self.word(t.base + CCTL0) | CCIFG);
        self.schedule();
    }

    /// Whether the timer's interrupt of CCR0 would be taken, were it pending.
    pub(crate) fn timer_runs(&self) -> bool {
        let enabled = |t: TimerA| {
            let (control, compare) = (self.word(t.base + CTL), self.word(t.base + CCTL0));
            control & MC != 0 && (compare & CCIE != 0 || control & TAIE != 0)
        };
        self.timer.is_some_and(enabled)
    }

    /// Cycles of a count, and the period; `None` while it does not count.
    fn period(&self, t: TimerA) -> Option<(u64, Period)> {
        let control = self.word(t.base + CTL);
        let (now, top) = (
            u64::from(self.word(t.base + R)),
            u64::from(self.word(t.base + CCR0)),
        );
        if !t.counts || control & TASSEL != SMCLK {
            return None;
        }
        let divider = (1 << (control >> ID & 3)) * u64::from((self.word(t.base + EX0) & 7) + 1);
        let period = match control & MC {
            // A timer that counts to 0 is stopped.
            0 => None,
            CONTINUOUS => Some((0x1_0000, top, now)),
            _ if top == 0 => None,
            // With a count above CCR0 it goes to 0 next.
            UP => Some((top + 1, top, now.min(top))),
            _ if t.down => Some((2 * top, top, 2 * top - now.min(top))),
            _ => Some((2 * top, top, now.min(top))),
        };
        period.map(|(counts, compare, now)| {
            (
                divider,
                Period {
                    counts,
                    compare,
                    now: now % counts,
                },
            )
        })
    }

    /// Brings the timer's registers up to date.
    pub(crate) fn count_timer(&mut self) {
        let Some(mut t) = self.timer else { return };
        let Some((divider, p)) = self.period(t) else {
            t.at = self.cycles;
            self.timer = Some(t);
            return;
        };
        let n = self.cycles.saturating_sub(t.at) / divider;
        t.at += n * divider;
        if n >= p.until(p.compare) {
            self.set_word(t.base + CCTL0, self.word(t.base + CCTL0) | CCIFG);
        }
        if n >= p.until(0) {
            self.set_word(t.base + CTL, self.word(t.base + CTL) | TAIFG);
        }
        let now = (p.now + n) % p.counts;
        if self.word(t.base + CTL) & MC == MC {
            t.down = now >= p.compare;
        }
        let count = if t.down { p.counts - now } else { now };
        self.set_word(t.base + R, count as u16);
        self.timer = Some(t);
    }

    /// What is pending, and when the next flag is set.
    pub(crate) fn schedule(&mut self) {
        let Some(t) = self.timer else {
            self.due = u64::MAX;
            return;
        };
        let (control, compare) = (self.word(t.base + CTL), self.word(t.base + CCTL0));
        let both = |word: u16, bits: u16| word & bits == bits;
        self.set_pending(t.vector, both(compare, CCIE | CCIFG));
        let other = match both(self.word(t.base + CCTL1), CCIE | CCIFG) {
            true => COMPARE_1,
            false if both(control, TAIE | TAIFG) => OVERFLOW,
            false => 0,
        };
        self.set_pending(t.vector - 2, other != 0);
        self.set_word(t.base + IV, other);
        self.due = match self.period(t) {
            Some((divider, p)) => t.at + divider * p.until(p.compare).min(p.until(0)),
            None => u64::MAX,
        };
    }

    /// A flag is due.
    pub(crate) fn tick(&mut self) {
        self.count_timer();
        self.schedule();
    }

    /// Before an access to a register of the timer.
    #[inline]
    pub(crate) fn before_timer(&mut self, address: u16) {
        if self
            .timer
            .is_some_and(|t| address.wrapping_sub(t.base) <= LAST)
        {
            self.count_timer();
        }
    }

    /// After one.
    #[inline]
    pub(crate) fn after_timer(&mut self, address: u16, stored: bool) {
        let Some(mut t) = self.timer else { return };
        let offset = address.wrapping_sub(t.base) & !1;
        if offset > LAST {
            return;
        }
        let control = self.word(t.base + CTL);
        match offset {
            CTL if stored && control & TACLR != 0 => {
                // Count, divider and direction.
                (t.at, t.down) = (self.cycles, false);
                self.timer = Some(t);
                self.set_word(t.base + R, 0);
                self.set_word(t.base + CTL, control & !TACLR);
            }
            // Any access resets the flag that the register has named.
            IV if self.word(t.base + CCTL1) & (CCIE | CCIFG) == CCIE | CCIFG => {
                let compare = self.word(t.base + CCTL1);
                self.set_word(t.base + CCTL1, compare & !CCIFG);
            }
            IV if control & (TAIE | TAIFG) == TAIE | TAIFG => {
                self.set_word(t.base + CTL, control & !TAIFG);
            }
            _ if !stored => return,
            _ => {}
        }
        self.schedule();
    }

    /// The interrupt with this vector is taken: that of CCR0 resets its flag, the other one stays
    /// pending until its flag is reset.
    pub(crate) fn timer_served(&mut self, vector: u16) {
        let Some(t) = self.timer else { return };
        if vector == t.vector {
            self.set_word(t.base + CCTL0, self.word(t.base + CCTL0) & !CCIFG);
        }
        if [t.vector, t.vector - 2].contains(&vector) {
            self.schedule();
        }
    }

    fn set_pending(&mut self, vector: u16, pending: bool) {
        let bit = 1 << ((vector - crate::interrupt::VECTORS) / 2);
        self.pending &= !bit;
        if pending {
            self.pending |= bit;
        }
    }
}
