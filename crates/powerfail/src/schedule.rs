//! A schedule: where a boot differs from the schedule that runs without being asked.
//!
//! ```text
//!  default:    aaaaaaaaaaaaaaaa bbbbbbbb            a ends, then b runs
//!                    ^ point 6
//!  ~6>1:       aaaaaa bbbbbbbb aaaaaaaaaa           at point 6 thread 1 (b) runs
//!  ~6>1~9>0:   aaaaaa bbb aaaaaaaaaa bbbbb          and at point 9 thread 0 again
//! ```
//!
//! A point is an instant at which something else could run. Points count from 0 in each boot. All
//! schedules with at most `k` preemptions are found in a breadth-first search: each run lists its
//! points and what could run there, and each of these after the last preemption gives one more
//! schedule. So the schedules of one preemption come before those of two.

use std::fmt::{self, Write};
use std::sync::Arc;

/// What runs at a point instead of the thread that would go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// This thread: `>1` in a line.
    Thread(u8),
    /// Nobody: the clock moves to the next deadline, and whom that wakes runs: `+` in a line.
    Clock,
    /// This interrupt: `*0` in a line.
    Interrupt(u8),
}

/// One preemption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Preemption {
    pub(crate) point: u32,
    pub(crate) choice: Choice,
}

/// The preemptions of one boot, in the order of their points.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Schedule(Arc<[Preemption]>);

/// The most threads, and the most interrupts, that one boot may have at a time.
pub(crate) const THREADS_MAX: usize = 32;
pub(crate) const INTERRUPTS_MAX: usize = 16;

/// What could run at a point: one bit for each choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Choices(u64);

const CLOCK: u32 = THREADS_MAX as u32;

impl Choices {
    fn bit(choice: Choice) -> u64 {
        1 << match choice {
            Choice::Thread(t) => u32::from(t),
            Choice::Clock => CLOCK,
            Choice::Interrupt(i) => CLOCK + 1 + u32::from(i),
        }
    }
    pub(crate) fn add(&mut self, choice: Choice) {
        self.0 |= Self::bit(choice);
    }
    pub(crate) fn has(self, choice: Choice) -> bool {
        self.0 & Self::bit(choice) != 0
    }
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
    pub(crate) fn iter(self) -> impl Iterator<Item = Choice> {
        (0..64)
            .filter(move |b| self.0 >> b & 1 == 1)
            .map(|b| match b {
                b if b < CLOCK => Choice::Thread(b as u8),
                CLOCK => Choice::Clock,
                b => Choice::Interrupt((b - CLOCK - 1) as u8),
            })
    }
}

impl Schedule {
    pub(crate) fn preemptions(&self) -> &[Preemption] {
        &self.0
    }
    pub(crate) fn is_default(&self) -> bool {
        self.0.is_empty()
    }
    /// This schedule with one more preemption, which comes last.
    pub(crate) fn and(&self, next: Preemption) -> Schedule {
        Schedule(self.0.iter().copied().chain([next]).collect())
    }

    /// Parses `~6>1~9+`.
    pub(crate) fn parse(text: &str) -> Option<Schedule> {
        let each = text.strip_prefix('~')?.split('~').map(|p| {
            let at = p.find(['>', '+', '*'])?;
            let (point, choice) = p.split_at(at);
            let choice = match choice.split_at(1) {
                (">", t) => Choice::Thread(t.parse().ok().filter(|t| *t < THREADS_MAX as u8)?),
                ("*", i) => {
                    Choice::Interrupt(i.parse().ok().filter(|i| *i < INTERRUPTS_MAX as u8)?)
                }
                ("+", "") => Choice::Clock,
                _ => return None,
            };
            Some(Preemption {
                point: point.parse().ok()?,
                choice,
            })
        });
        let all: Vec<Preemption> = each.collect::<Option<_>>()?;
        let in_order = all.windows(2).all(|w| w[0].point < w[1].point);
        in_order.then(|| Schedule(all.into()))
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for p in self.preemptions() {
            write!(f, "~{}", p.point)?;
            match p.choice {
                Choice::Thread(t) => write!(f, ">{t}")?,
                Choice::Clock => f.write_char('+')?,
                Choice::Interrupt(i) => write!(f, "*{i}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_read_as_it_was_written() {
        let all = [Choice::Thread(31), Choice::Clock, Choice::Interrupt(15)];
        let mut s = Schedule::default();
        let mut choices = Choices::default();
        for (i, choice) in all.into_iter().enumerate() {
            let point = 7 * i as u32;
            s = s.and(Preemption { point, choice });
            choices.add(choice);
        }
        assert_eq!(s.to_string(), "~0>31~7+~14*15");
        assert_eq!(Schedule::parse(&s.to_string()), Some(s));
        assert_eq!(choices.iter().collect::<Vec<_>>(), all);
        for bad in [
            "", "~", "~5", "~5>", "~5>32", "~5*16", "~5+1", "~5>0~5>1", "~6+~5+", "5>1",
        ] {
            assert_eq!(Schedule::parse(bad), None, "{bad}");
        }
    }
}
