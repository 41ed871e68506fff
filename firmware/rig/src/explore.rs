//! Cuts at every instruction of a scenario, and cuts in the recoveries from them.
//!
//! ```text
//! blank --boot, no cut--> end           the log lists each store: units A B C D
//!    |
//!    +-- cut before A, B, C, D, end     each cut gives a state: the memory after some of the units
//!             |
//!             +-- boot it -> must finish; its stores give the states of the second cut, and so on
//! ```
//!
//! A boot runs once, and its log yields all states that a cut in it can leave: an instruction that
//! stores nothing leaves the same state as the one before it. States are compared by a hash of 128
//! bits, and equal states are booted once.
//!
//! Why this is sound: the first run is repeated with other garbage in RAM and registers and must
//! make the same stores. Some cuts are made by really stopping the machine, and the memory must
//! then equal the derived state. One boot in [`BOOTED_TWICE`] runs again with other garbage.

use crate::cost::{Cost, figures, sections};
use crate::machine::{Boot, End, Machine, Ran};
use crate::state::{Log, State, Store};
use crate::time::Stopwatch;
use anyhow::{Result, bail};
use relume_models::Bench;
use relume_suite::abi::{self, cell};
use std::collections::HashSet;

/// A scenario, and how to run it.
#[derive(Default, Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The scenario's name in its group.
    pub name: String,
    /// Its index in the group.
    pub number: u16,
    /// The argument in the mailbox: 0, or the number of a planted bug.
    pub argument: u16,
    /// How many operations it does; 0 for its default.
    pub rounds: u16,
    /// Bytes of non-volatile memory that are its own.
    pub bytes: usize,
    /// It only measures; one cut is enough.
    pub measures: bool,
    /// The timer's interrupts are on.
    pub interrupts: bool,
    /// The instruction of the first boot before which one comes.
    pub interrupt: Option<u64>,
    /// It has several threads, which the timer's interrupt switches.
    pub preempts: bool,
    /// After how many instructions of the first boot that interrupt comes, for each of them.
    pub instants: Vec<u64>,
    /// A cut may tear a word.
    pub torn: bool,
    /// After the first cut, cuts everywhere only in one state of so many; see the suite's
    /// `Scenario`.
    pub sample: u16,
    /// It is a whole program: it is not cut at every instruction.
    pub whole: bool,
    /// It runs with a cut after each of many seeded periods.
    pub periods: bool,
}

impl Case {
    /// The state before the very first boot.
    pub fn blank(&self) -> State {
        let mut s = State::blank(self.bytes, self.number, self.argument);
        s.write_cell(cell::ROUNDS, self.rounds);
        let timer = self.interrupts || self.preempts;
        s.write_cell(cell::TIMER, if timer { u16::MAX } else { 0 });
        s
    }

    /// The `i`-th boot, counted from 0.
    pub fn boot(&self, m: &mut dyn Machine, i: usize, boot: &Boot<'_>, log: &mut Log) -> Ran {
        match self.interrupt {
            Some(at) if i == 0 => return m.interrupted(boot, at, log),
            _ if i == 0 && !self.instants.is_empty() => {
                return m.preempted(boot, &self.instants, log);
            }
            _ => {}
        }
        m.boot(boot, log)
    }
}

/// Where an exploration ends.
#[derive(Debug, Clone)]
pub struct Limits {
    /// How many times in a row the power fails. 0: run without a cut. `None`: until every reachable
    /// state has been booted.
    pub depth: Option<u32>,
    /// Stop at the first failure.
    pub first_only: bool,
    /// The largest number of states to boot.
    pub most: u64,
    /// Where the last cut leaves more states than take [`ENOUGH`] instructions, a sample of them is
    /// booted, which this number selects. `None`: all are.
    pub sample: Option<u64>,
}

impl Limits {
    /// Of `all` instants at which an interrupt would come: one in how many comes, and the number of
    /// the first one. Without a given depth all come. With a sample each run has other ones. `few`
    /// scenarios share what one alone would have.
    pub fn spread(&self, all: u64, few: u64) -> (u64, u64) {
        let every = |most: u64| all.div_ceil(most / few.max(1)).max(1);
        match (self.depth, self.sample) {
            (None, _) => (1, 0),
            (Some(_), None) => (every(INSTANTS), 0),
            (Some(_), Some(sample)) => {
                let every = every(INSTANTS_SAMPLED);
                (every, sample % every)
            }
        }
    }
}

/// What was wrong after the cuts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It did not finish. The number is the failure code in the mailbox.
    Ended(End, u16),
    /// A store to non-volatile memory outside of the scenario's region.
    Outside(Store),
    /// A device, or the outside, has seen what must not be.
    Device(&'static str),
    /// The memory differs from what the logged stores make of it.
    Unseen,
    /// Two boots from the same state with different garbage in RAM and registers made different
    /// stores, from this one on.
    Garbage(usize),
}

/// A failure, and the way to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// For each boot that was cut, how many units it had stored.
    pub cuts: Vec<usize>,
    /// The instruction of the first boot before which an interrupt came.
    pub interrupt: Option<u64>,
    /// After how many instructions of the first boot the timer's interrupts came.
    pub instants: Vec<u64>,
    /// For each of them, how the last unit is torn; 0 if it is not.
    pub torn: Vec<u8>,
    /// What was wrong in the boot after the last cut.
    pub why: Why,
}

/// What an exploration saw.
#[derive(Debug, Default)]
pub struct Explored {
    /// Of the run without cuts.
    pub instructions: u64,
    /// Units that it stored to non-volatile memory.
    pub stores: u64,
    /// Its deepest stack.
    pub stack: u32,
    /// Cut points that were judged.
    pub cuts: u64,
    /// Interrupts that came, each at another instruction.
    pub interrupts: u64,
    /// The most instructions that ran with interrupts masked, between two that interrupts may come
    /// before.
    pub masked: u64,
    /// Distinct states that were booted.
    pub boots: u64,
    /// Instructions of these boots.
    pub booted_instructions: u64,
    /// Processor time of these boots and of finding the states.
    pub seconds: f64,
    /// Whether every reachable state was booted. `false` with a given depth, or if there were too
    /// many.
    pub closed: bool,
    /// Measured sections, in order.
    pub sections: Vec<(u16, Cost)>,
    /// What the scenario counted itself: number and value.
    pub figures: Vec<(u16, u16)>,
    /// What it has counted in the other runs that came to its end: of a program that is cut after
    /// seeded periods.
    pub others: Vec<Vec<(u16, u16)>>,
    /// What a whole program takes with cuts.
    pub repeated: Option<crate::periods::Repeated>,
    /// How long its steps are.
    pub steps: Option<crate::steps::Longest>,
    /// Its longest restart with full journals.
    pub restart: Option<crate::restart::Longest>,
    /// Restarts of threads that wait with full journals.
    pub journals: Option<crate::restart::Journals>,
    /// States after which something was wrong.
    pub failures: u64,
    /// Of these, runs with interrupts and without a cut.
    pub uncut: u64,
    /// Failures of the same scenario with cuts and without interrupts, where that is asked.
    pub calm: u64,
    /// The first of them: fewest cuts, then the earliest.
    pub first: Option<Failure>,
}

/// A state that is still to be booted. [`CutStep`]s tell how it came about.
struct Pending {
    state: State,
    hash: u128,
    way: u32,
}

/// The boot that was cut, and after how many units.
struct CutStep {
    before: u32,
    cut: u32,
    /// How the last unit is torn; 0 if it is not.
    torn: u8,
}

/// Where words are torn, boots are long and there are two or three states for each store. With a
/// given depth one in so many of those that the first cut leaves is booted. Which ones depends on
/// the image, so that each change of the program and each machine has others.
const TORN_SHARE: u128 = 4;
/// Instructions after which an exploration without a given depth ends: seconds of a scenario, so
/// that all of them take less than 40 minutes on two cores.
const LONG: u64 = 500_000_000;
/// With a sample: about so many instructions for the states that the last of several cuts leaves,
/// and for those of the first one in a scenario that only measures. Half a second or less.
const ENOUGH: u64 = 5_000_000;
/// And so many states at least.
const AT_LEAST: usize = 3;
/// Instants of interrupts in an exploration with a given number of cuts, and with a sample of them.
/// Where there are more they are spread evenly.
const INSTANTS: u64 = 1_200;
const INSTANTS_SAMPLED: u64 = 560;
/// One boot in this many is made twice.
const BOOTED_TWICE: u64 = 8;
/// Of the cuts in the first run, this many are made by stopping the machine there; without a given
/// depth also one in each of so many boots.
const REAL_STOPS: u64 = 8;
const STOPS: u64 = 64;

/// Explores one scenario.
///
/// **Errors**: the scenario stores nothing, or a run does not repeat. A bug of the program is not
/// an error but a [`Failure`].
pub fn explore(m: &mut dyn Machine, case: &Case, reach: &Limits) -> Result<Explored> {
    let mut e = Explorer {
        case,
        unit: m.map().unit as usize,
        log: Log::default(),
        other: Log::default(),
        now: case.blank(),
        limit: 0,
        slack: 0,
        booted: 0,
        sparse: reach.depth.is_some(),
        share: match case.torn && reach.depth.is_some() && !reach.first_only {
            true => TORN_SHARE,
            false => 1,
        },
        salt: m.image().hash.into(),
        chosen: 0,
        seen: HashSet::new(),
        steps: Vec::new(),
        out: Explored::default(),
        m,
    };
    let Some(first) = e.uncut(reach.depth != Some(0))? else {
        return Ok(e.out);
    };
    if reach.depth == Some(0) {
        // Measured, not cut.
        e.out.cuts = 0;
        return Ok(e.out);
    }
    let clock = Stopwatch::start();
    e.search(first, reach)?;
    e.out.seconds = clock.seconds();
    if e.out.boots < 2 || e.out.stores == 0 {
        bail!("{}: it explored nothing", case.name);
    }
    Ok(e.out)
}

/// Of so many states, which take so many instructions each, one in this many is booted.
fn share(each: u64, states: usize) -> u64 {
    (each * states as u64).div_ceil(ENOUGH).max(1)
}

struct Explorer<'a> {
    case: &'a Case,
    unit: usize,
    m: &'a mut dyn Machine,
    log: Log,
    other: Log,
    now: State,
    limit: u64,
    /// A boot without details counts this many instructions too many. It always ends at the same
    /// instruction.
    slack: u64,
    /// Instructions of the last boot that was judged.
    booted: u64,
    /// Whether the depth is given. Then only one of the two tears of a word is tried.
    sparse: bool,
    /// Of the states that the first cut leaves, one in so many is booted; what chooses them, and
    /// how
    /// many cuts they are.
    share: u128,
    salt: u128,
    chosen: u64,
    seen: HashSet<u128>,
    steps: Vec<CutStep>,
    out: Explored,
}

impl Explorer<'_> {
    /// The run without cuts; the states to be booted first, or `None` when it fails already. If the
    /// run is only measured (not `cut`), the machine is not stopped anywhere in it.
    fn uncut(&mut self, cut: bool) -> Result<Option<Vec<Pending>>> {
        let blank = self.case.blank();
        let boot = |seed, detail| Boot {
            state: &blank,
            seed,
            limit: 60_000_000,
            detail,
        };
        let ran = self.m.boot(&boot(0, true), &mut self.log);
        if let Some(why) = self.wrong(&blank, &ran) {
            self.fail(vec![], vec![], why);
            return Ok(None);
        }
        let name = &self.case.name;
        for (seed, detail) in [(1, true), (0, false), (1, false)] {
            let again = self.m.boot(&boot(seed, detail), &mut self.other);
            if let Some(i) = differ(&self.log, &self.other) {
                self.fail(vec![], vec![], Why::Garbage(i));
                return Ok(None);
            }
            if detail && ran.instructions != again.instructions {
                bail!(
                    "{name}: {} instructions, and again {}",
                    ran.instructions,
                    again.instructions
                );
            }
            if !(ran.instructions..ran.instructions + 600).contains(&again.instructions) {
                bail!(
                    "{name}: {} instructions, and fast {}",
                    ran.instructions,
                    again.instructions
                );
            }
            self.slack = again.instructions - ran.instructions;
        }
        self.limit = 3 * ran.instructions + 10_000;
        self.out.instructions = ran.instructions;
        self.out.stack = ran.stack.unwrap_or(0);
        let nvm = self.log.stores.iter().filter(|s| s.in_nvm());
        self.out.stores = nvm.count() as u64;
        self.out.sections = sections(&self.log);
        self.out.figures = figures(&self.log);
        // Every instruction, and inside of an instruction between its units.
        let inner = self.log.stores.windows(2);
        let inner = inner
            .filter(|w| w[0].instruction == w[1].instruction)
            .count();
        self.out.cuts = ran.instructions + 1 + inner as u64;
        if self.case.torn {
            self.out.cuts += self.out.stores;
        }
        for i in 1..=if cut { REAL_STOPS } else { 0 } {
            self.check_real_stop(&blank, ran.instructions * i / (REAL_STOPS + 1))?;
        }
        let hash = blank.hash();
        self.seen.insert(hash);
        let mut open = Vec::new();
        // A blank memory is a state to boot, too: it has been.
        self.out.boots = 1;
        self.out.booted_instructions = ran.instructions;
        self.branch(&blank, hash, u32::MAX, &mut open);
        if self.share > 1 {
            self.out.cuts = self.chosen;
        }
        Ok(Some(open))
    }

    /// What is derived from the stores in the log, which has details, is what a machine holds that
    /// stops after `at` instructions.
    fn check_real_stop(&mut self, from: &State, at: u64) -> Result<()> {
        let boot = Boot {
            state: from,
            seed: 0,
            limit: at,
            detail: true,
        };
        let ran = self.m.boot(&boot, &mut self.other);
        self.m.state(&mut self.now);
        let agree = |n: u64| {
            let mut s = from.clone();
            let made = self.log.stores.iter();
            let before = made.filter(|s| u64::from(s.instruction) < n);
            before.for_each(|x| s.apply(x, &mut 0));
            s.same(&self.now)
        };
        // Unicorn does not stop between a condition and the up to four instructions that it rules.
        if ran.end != End::Limit || !(at..at + 5).any(agree) {
            bail!(
                "{}: stopped after {at} instructions, the memory differs",
                self.case.name
            );
        }
        Ok(())
    }

    /// A cut at each instruction of the last boot leaves what a cut at a store before it leaves; so
    /// they are judged with those. Now and then the machine is stopped at one. How many they are.
    fn everywhere(&mut self, o: &Pending) -> Result<u64> {
        let all = self.booted - self.slack;
        if self.out.boots.is_multiple_of(STOPS) {
            let boot = Boot {
                state: &o.state,
                seed: 0,
                limit: self.limit,
                detail: true,
            };
            let ran = self.m.boot(&boot, &mut self.log);
            if ran.instructions != all {
                bail!(
                    "{}: {} instructions after a cut, counted {all}",
                    self.case.name,
                    ran.instructions
                );
            }
            self.check_real_stop(&o.state, 1 + o.hash as u64 % (all - 1))?;
        }
        Ok(all + 1)
    }

    /// Boots all states, and those that cuts in these boots leave.
    fn search(&mut self, first: Vec<Pending>, reach: &Limits) -> Result<()> {
        let mut open = first;
        let mut depth = 1;
        let mut led_to = self.out.cuts;
        loop {
            let last = reach.depth == Some(depth);
            let thinned = last && (depth > 1 || self.case.measures);
            if let (true, Some(sample)) = (thinned, reach.sample) {
                let each = self.out.booted_instructions / self.out.boots;
                let share = share(each, open.len());
                let chosen = |o: &Pending| (o.hash >> 64 ^ u128::from(sample)) % u128::from(share);
                let (mut some, rest): (Vec<_>, Vec<_>) =
                    open.into_iter().partition(|o| chosen(o) == 0);
                // Where each boot is long, chance may choose none.
                some.extend(rest.into_iter().take(AT_LEAST.saturating_sub(some.len())));
                open = some;
                // Those that are left out are not judged.
                self.out.cuts -= led_to - led_to / share;
            }
            led_to = 0;
            let mut next = Vec::new();
            for o in open {
                let long = reach.depth.is_none() && self.out.booted_instructions >= LONG;
                if self.out.boots >= reach.most || long {
                    return Ok(());
                }
                let ok = self.judge(&o);
                if !ok && reach.first_only {
                    return Ok(());
                }
                if ok && !last {
                    let cuts = match reach.depth {
                        Some(_) => self.log.stores.len() as u64,
                        None => self.everywhere(&o)?,
                    };
                    self.out.cuts += cuts;
                    led_to += cuts;
                    self.branch(&o.state, o.hash, o.way, &mut next);
                }
            }
            if last || next.is_empty() {
                self.out.closed = !last;
                return Ok(());
            }
            (open, depth) = (next, depth + 1);
        }
    }

    /// One boot.
    fn judge(&mut self, o: &Pending) -> bool {
        let n = self.out.boots;
        self.out.boots += 1;
        let limit = self.limit;
        let boot = |seed| Boot {
            state: &o.state,
            seed,
            limit,
            detail: false,
        };
        let ran = self.m.boot(&boot(n & 1), &mut self.log);
        self.out.booted_instructions += ran.instructions;
        self.booted = ran.instructions;
        let mut why = self.wrong(&o.state, &ran);
        if why.is_none() && n % BOOTED_TWICE == 1 {
            self.m.boot(&boot(2 + (n & 1)), &mut self.other);
            why = differ(&self.log, &self.other).map(Why::Garbage);
        }
        let ok = why.is_none();
        if let Some(why) = why {
            let (mut cuts, mut torn) = (Vec::new(), Vec::new());
            let mut at = o.way;
            while let Some(w) = self.steps.get(at as usize) {
                cuts.insert(0, w.cut as usize);
                torn.insert(0, w.torn);
                at = w.before;
            }
            self.fail(cuts, torn, why);
        }
        ok
    }

    fn fail(&mut self, cuts: Vec<usize>, torn: Vec<u8>, why: Why) {
        self.out.failures += 1;
        self.out.first.get_or_insert(Failure {
            cuts,
            torn,
            interrupt: None,
            instants: Vec::new(),
            why,
        });
    }

    /// Whether the boot that has just ended did wrong.
    fn wrong(&mut self, from: &State, ran: &Ran) -> Option<Why> {
        self.m.state(&mut self.now);
        wrong(self.case, from, &self.log, &self.now, ran)
    }

    /// The states that a cut in the boot of `log` leaves, if they are new.
    fn branch(&mut self, from: &State, hash: u128, way: u32, open: &mut Vec<Pending>) {
        debug_assert!(self.unit <= 4);
        let (mut state, mut hash) = (from.clone(), hash);
        let sample = u32::from(self.case.sample);
        let mut tells = match way {
            u32::MAX => u32::MAX,
            _ if sample == 0 => u32::MAX,
            n if n % sample == 0 => 2,
            _ => 1,
        };
        for (i, s) in self.log.stores.iter().enumerate() {
            if s.mailbox_write().is_some_and(|(c, _)| c >= cell::OWN) {
                tells -= 1;
                if tells == 0 {
                    return;
                }
            }
            // In one of two ways, in turn: each slot is written several times.
            let torn = (self.case.torn && s.in_nvm()).then_some(1 + (i & 1) as u8);
            // After the first cut either torn or not, unless all states are asked for: from another
            // state it is the other way round.
            let second = torn.filter(|_| self.sparse && way != u32::MAX);
            let only = second.map(|torn| if (i as u32 ^ way) & 2 == 0 { torn } else { 0 });
            let cut = i as u32 + 1;
            for torn in torn.into_iter().chain([0]) {
                let (made, kept) = match torn {
                    0 => (*s, None),
                    v => (s.torn(&state, v), Some((state.clone(), hash))),
                };
                state.apply(&made, &mut hash);
                let chosen = way != u32::MAX
                    || self.share == 1
                    || (hash >> 64 ^ self.salt).is_multiple_of(self.share);
                self.chosen += u64::from(chosen);
                if chosen && only.is_none_or(|only| only == torn) && self.seen.insert(hash) {
                    self.steps.push(CutStep {
                        before: way,
                        cut,
                        torn,
                    });
                    let way = self.steps.len() as u32 - 1;
                    let state = state.clone();
                    open.push(Pending { state, hash, way });
                }
                if let Some(kept) = kept {
                    (state, hash) = kept;
                }
            }
        }
    }
}

/// Whether a boot from `from` did wrong; `now` is what the memory held when it ended.
pub fn wrong(case: &Case, from: &State, log: &Log, now: &State, ran: &Ran) -> Option<Why> {
    let inside = |s: &&Store| usize::from(s.at) + s.bytes().len() <= case.bytes || !s.in_nvm();
    if let Some(s) = log.stores.iter().find(|s| !inside(s)) {
        return Some(Why::Outside(*s));
    }
    if let Some(what) = Bench::mistake(now.bench()) {
        return Some(Why::Device(what));
    }
    if ran.end != End::Status(abi::FINISHED) {
        return Some(Why::Ended(ran.end.clone(), now.read_cell(cell::FAILURE)));
    }
    let mut made = from.clone();
    log.stores.iter().for_each(|s| made.apply(s, &mut 0));
    (!made.same(now)).then_some(Why::Unseen)
}

/// The first store in which two runs differ.
pub fn differ(a: &Log, b: &Log) -> Option<usize> {
    let pairs = a.stores.iter().zip(&b.stores);
    let same = pairs.take_while(|(a, b)| a.same(b)).count();
    (same < a.stores.len().max(b.stores.len())).then_some(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_left_out_only_where_all_of_them_take_long() {
        assert_eq!(share(100, 0), 1);
        assert_eq!(share(1_000, ENOUGH as usize / 1_000), 1);
        assert_eq!(share(1_000, ENOUGH as usize / 1_000 + 1), 2);
        assert_eq!(share(ENOUGH, 20), 20);
    }

    #[test]
    fn a_sample_of_instants_is_another_one_in_each_run() {
        let limits = |depth, sample| Limits {
            depth,
            first_only: false,
            most: 1,
            sample,
        };
        assert_eq!(limits(None, None).spread(5_000, 5), (1, 0));
        assert_eq!(limits(Some(2), None).spread(5 * INSTANTS, 1), (5, 0));
        let all = 5 * INSTANTS_SAMPLED;
        assert_eq!(limits(Some(2), Some(3)).spread(all, 1), (5, 3));
        assert_eq!(limits(Some(2), Some(9)).spread(all, 1), (5, 4));
        assert_eq!(limits(Some(2), Some(9)).spread(all, 4), (20, 9));
        assert_eq!(limits(Some(2), Some(9)).spread(1, 1), (1, 0));
    }
}
