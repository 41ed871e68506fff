//! What a program's replay must have seen.
//!
//! Every step counts itself, so the number of steps says where a program is, and what its objects
//! hold there: `Plan` knows it from the script, but for the inputs, which the world has shown. So
//! whatever is seen outside (a message, a value that is shown, an input that is read) tells how
//! many steps must never run again.
//!
//! Until a step is seen, the sensor may be read before it again, and no reading is the last one: a
//! save that was cut may read old at one open of the mirror, and new at the next. So all readings
//! count, until it is known which one was seen.

use super::program::Op;
use std::collections::{BTreeMap, BTreeSet};

/// What the objects hold: the number of steps, the sum of the values of the program, and that of
/// its inputs.
pub type Top = [u32; 3];

/// What a script does.
#[derive(Debug, Default)]
pub struct Plan {
    /// The sum of the program's values after so many steps.
    fixed: Vec<u32>,
    /// How many steps there are at each message.
    messages: Vec<u32>,
}

impl Plan {
    pub fn of(ops: &[Op]) -> Self {
        let mut plan = Plan {
            fixed: vec![0],
            messages: vec![],
        };
        plan.run(ops);
        plan
    }

    pub fn steps(&self) -> u32 {
        self.fixed.len() as u32 - 1
    }

    pub fn messages(&self) -> usize {
        self.messages.len()
    }

    fn step(&mut self, adds: u32) {
        let last = self.fixed[self.fixed.len() - 1];
        self.fixed.push(last + adds);
    }

    fn run(&mut self, ops: &[Op]) {
        for op in ops {
            match op {
                Op::Add(v) | Op::Record(v) => self.step((*v).into()),
                Op::Fail(_) | Op::Input | Op::Show | Op::Sleep(..) => self.step(0),
                Op::Object(v) => {
                    self.step(0);
                    self.step(0);
                    self.step(u32::from(*v) + 1);
                }
                Op::Send => {
                    self.step(0);
                    self.messages.push(self.steps());
                }
                Op::Loop(n, body) => (0..*n).for_each(|_| self.run(body)),
                Op::Turns(n, sends) => {
                    for turn in 0..u32::from(*n) {
                        self.step(turn);
                        if *sends && turn % 2 == 1 {
                            self.messages.push(self.steps());
                        }
                    }
                }
            }
        }
    }
}

/// The number of steps of some operations.
pub fn steps(ops: &[Op]) -> u32 {
    Plan::of(ops).steps()
}

/// Each sum with each of these values more.
fn plus(sums: &BTreeSet<u32>, values: &[u32]) -> BTreeSet<u32> {
    let each = sums
        .iter()
        .flat_map(|sum| values.iter().map(move |v| sum + v));
    each.collect()
}

/// What is outside of the device.
#[derive(Clone, Hash, Debug, Default)]
pub struct Outside {
    /// So many steps must never run again.
    pub seen: u32,
    /// What the sensor has shown before the step of this number, and may have been recorded.
    inputs: BTreeMap<u32, Vec<u32>>,
    /// Values that the sensor has shown.
    shown: u32,
    /// The messages, by number.
    pub received: Vec<Top>,
    /// Attempts to send.
    pub attempts: u32,
    /// Openings of the runtime.
    pub openings: u32,
    /// A clock with a battery, and one that begins anew in each boot.
    pub clock: u64,
    /// Until when the sleep before the step of this number lasts, if that is recorded.
    deadlines: BTreeMap<u32, u64>,
}

impl Outside {
    /// Something outside has seen that the program has done so many steps.
    pub fn sees(&mut self, steps: u32) {
        self.seen = self.seen.max(steps);
    }

    /// The sensor is read before step `n`.
    #[track_caller]
    pub fn reads(&mut self, n: u32) -> u32 {
        assert!(n >= self.seen, "the input before step {n} is read again");
        self.shown += 1;
        let value = self.shown * 1000;
        self.inputs.entry(n).or_default().push(value);
        value
    }

    /// The objects hold this where the program is after so many steps.
    #[track_caller]
    pub fn holds(&self, plan: &Plan, top: Top, steps: u32) {
        assert_eq!(top[..2], [steps, plan.fixed[steps as usize]]);
        let inputs = self.inputs.range(..steps).map(|(_, values)| &values[..]);
        let sums = inputs.fold(BTreeSet::from([0]), |sums, values| plus(&sums, values));
        assert!(sums.contains(&top[2]), "{top:?}, and not one of {sums:?}");
    }

    /// What was seen holds inputs of this sum before step `n`: other readings were not recorded.
    pub fn settles(&mut self, n: u32, sum: u32) {
        let mut before = BTreeSet::from([sum]);
        let at: Vec<u32> = self.inputs.range(..n).map(|(n, _)| *n).collect();
        // What the readings from each step on may sum up to.
        let mut behind = vec![BTreeSet::from([0])];
        for n in at.iter().rev() {
            behind.push(plus(&behind[behind.len() - 1], &self.inputs[n]));
        }
        for (k, n) in at.iter().enumerate() {
            let rest = &behind[at.len() - 1 - k];
            let values = self.inputs.get_mut(n).expect("a step with an input");
            let fits = |v: &u32| {
                before
                    .iter()
                    .any(|b| b.checked_sub(*v).is_some_and(|r| rest.contains(&r)))
            };
            values.retain(fits);
            before = before
                .iter()
                .flat_map(|b| values.iter().filter_map(|v| b.checked_sub(*v)))
                .collect();
        }
    }

    /// A message arrives.
    #[track_caller]
    pub fn receives(&mut self, plan: &Plan, number: u32, top: Top) {
        let n = number as usize;
        match self.received.get(n) {
            Some(known) => assert_eq!(*known, top, "another message {n}"),
            None => {
                assert_eq!(n, self.received.len(), "a message is missing");
                let expected = plan.messages.get(n).expect("a message too many");
                self.holds(plan, top, *expected);
                self.received.push(top);
            }
        }
        self.settles(top[0], top[2]);
        self.sees(top[0]);
    }

    /// A sleep before step `n` lasts until then. If that is recorded, a cut does not change it.
    #[track_caller]
    pub fn sleeps(&mut self, n: u32, until: u64, recorded: bool) {
        let known = *self.deadlines.entry(n).or_insert(until);
        assert!(
            !recorded || known == until,
            "the sleep before step {n} begins again"
        );
    }
}
