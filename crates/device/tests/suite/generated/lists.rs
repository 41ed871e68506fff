//! Lists that leave devices out, name one twice, or differ from call to call: a step commits with
//! all devices that it has used, or fails and nothing of it counts.

use crate::crash::{BYTES, split};
use core::convert::Infallible;
use nv_device::nv_replay::{Commit, Committed as Done, Config, Error, Options, Replay, Token};
use nv_device::nv_replay::{StepError, last_committed};
use nv_device::nv_rtos::Joiner;
use nv_device::nvmem::{InOrder32, Region};
use nv_device::{Code, Committed, Devices, Members, OfSet, Restore, Set, Staged, StagedDevice};
use nv_device::{open, within};
use powerfail::{Mapped, World, explore_with};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

/// It has no hardware.
struct Lamp;
impl Restore for Lamp {
    type Context = u8;
    type Parts = ();
    type Error = Infallible;
    fn restore(_: &mut (), _: &u8) -> Result<Self, Infallible> {
        Ok(Lamp)
    }
}

/// Two lamps. After so many loans, each member of the list lends the lamp that it names here.
struct Lamps<'m> {
    lamps: [StagedDevice<'m, Lamp, InOrder32>; 2],
    lies: Cell<Lies>,
    loans: Cell<usize>,
}

type Lies = [Option<usize>; 2];

impl<'m> Lamps<'m> {
    fn lend(&self, member: usize, f: &mut dyn FnMut(&StagedDevice<'m, Lamp, InOrder32>)) {
        let honest = self.loans.get();
        self.loans.set(honest.saturating_sub(1));
        let lamp = match honest {
            0 => self.lies.get()[member],
            _ => Some(member),
        };
        if let Some(lamp) = lamp {
            f(&self.lamps[lamp])
        }
    }

    /// From now on it lies after so many loans.
    fn lies_after(&self, loans: usize, lies: Lies) {
        self.loans.set(loans);
        self.lies.set(lies);
    }
}

impl Devices for Lamps<'_> {
    fn list(&self) -> impl Members {
        (within(|f| self.lend(0, f)), within(|f| self.lend(1, f)))
    }
}

/// A set whose kernel may refuse the commit.
struct Node<'m> {
    set: Set<Lamps<'m>>,
    /// How its steps end.
    ends: Ends,
}
impl Token<InOrder32> for Node<'_> {
    fn join<'c>(&self, commit: Commit<'c, InOrder32>) -> Result<Done<'c>, Error> {
        Joiner::join_by(&self.set, commit, |commit| match self.ends {
            Ends::IsRefused => Err(Error::Aborted(9)),
            _ => Ok(commit.store()),
        })
    }
    fn undone(&self) {
        Joiner::<InOrder32>::undone(&self.set)
    }
}
impl<'m> OfSet for Node<'m> {
    type Devices = Lamps<'m>;
    fn set(&self) -> &Set<Lamps<'m>> {
        &self.set
    }
}

/// How a step ends.
#[derive(Clone, Copy, PartialEq)]
enum Ends {
    Well,
    /// Its body returns an error.
    Fails,
    /// The kernel refuses the commit.
    IsRefused,
}

/// How the list lies in the first step, and how that one ends.
#[derive(Clone, Copy)]
struct Case {
    lies_after: usize,
    lies: Lies,
    ends: Ends,
}

/// What comes of it.
struct Expected {
    /// `None` if the step unwinds.
    result: Option<Result<(), u16>>,
    commits: bool,
    /// Whether the set takes steps after that.
    goes_on: bool,
}

impl Case {
    /// What comes of a case; `None` if the program stops. A step asks each member what was used;
    /// has those that were used stage it; has them finish, or revert what they have staged; and
    /// tells all that it is undone.
    fn expected(self) -> Option<Expected> {
        let mut loans = 0;
        let mut lend = |member: usize| {
            loans += 1;
            match loans > self.lies_after {
                true => self.lies[member],
                false => Some(member),
            }
        };
        let mut found = |of: [bool; 2]| {
            let each = [0, 1].map(|m| of[m].then(|| lend(m)).flatten());
            [A, B].map(|lamp| each.contains(&lamp))
        };
        let all = [true; 2];
        let fails = |code, goes_on| Expected {
            result: Some(Err(code)),
            commits: false,
            goes_on,
        };
        if self.ends == Ends::Fails {
            return Some(fails(7, found(all) == all));
        }
        let mut asked = |m: usize| found([m == 0, m == 1]) != [false; 2];
        let used = [asked(0), asked(1)];
        let staged = found(used);
        let settled = found(used);
        if staged == all && self.ends == Ends::Well {
            let finishes = settled == all;
            return Some(Expected {
                result: finishes.then_some(Ok(())),
                commits: true,
                goes_on: finishes,
            });
        }
        if (0..2).any(|lamp| staged[lamp] && !settled[lamp]) {
            return None;
        }
        let code = if staged == all { 9 } else { FORGOTTEN };
        Some(fails(code, found(all) == all))
    }
}

const FORGOTTEN: u16 = Code::Forgotten as u16;

/// What the contexts may hold at a boot; empty before the first one.
type Allowed = Vec<[u8; 2]>;

type Rt<'m> = Replay<'m, (), InOrder32>;

/// A step that sets the lamps whose value differs.
fn step(rt: &mut Rt<'_>, node: &Node<'_>, from: [u8; 2], to: [u8; 2]) -> Result<(), u16> {
    let fails = node.ends == Ends::Fails;
    let done = rt.step_with(node, (from, to, fails), |step, _, (from, to, fails)| {
        for (i, lamp) in step.token().set.lamps.iter().enumerate() {
            if from[i] != to[i] {
                lamp.change(step, |lit| *lit = to[i])?;
            }
        }
        match fails {
            true => Err(step.abort(7)),
            false => Ok(()),
        }
    });
    done.map_err(|e: StepError<_>| match e.error {
        Error::Aborted(code) => code,
        e => panic!("{e:?}"),
    })
}

fn boot(region: Region<'_, InOrder32>, world: &World<'_, Allowed>, case: &Case) {
    let (contexts, rest) = split(region);
    let number = last_committed(&rest).expect("a table");
    let committed = Committed::of(number, &Config::SMALL);
    let (a, b) = open::<(Staged<u8>, Staged<u8>), _>(contexts, committed, (1, 1)).expect("opens");
    let lamps = [StagedDevice::new(a, ()), StagedDevice::new(b, ())];
    let [a, b] = lamps.each_ref().map(|l| l.context().expect("no call runs"));
    let first = vec![[1, 1]];
    let allowed = world.with(|w| if w.is_empty() { first } else { w.clone() });
    assert!(allowed.contains(&[a, b]), "{allowed:?}, and found {a}, {b}");
    world.set(vec![[a, b]]);
    let set = Set::new(Lamps {
        lamps,
        lies: Cell::default(),
        loans: Cell::new(usize::MAX),
    });
    let mut node = Node {
        set,
        ends: case.ends,
    };
    let options = Options {
        table: Config::SMALL,
        start_over: true,
        ..Options::default()
    };
    let mut rt = Rt::open(rest, options, |_| Ok(())).unwrap_or_else(|r| panic!("{}", r.error));
    let mut now = [a, b];
    let mut attempt = |node: &Node<'_>, to: [u8; 2], expected, commits: bool| {
        if commits {
            world.update(|w| w.push(to));
        }
        let mut run = || step(&mut rt, node, now, to);
        match expected {
            Some(expected) => assert_eq!(run(), expected),
            None => assert!(catch_unwind(AssertUnwindSafe(run)).is_err()),
        }
        if commits {
            now = to;
            world.set(vec![now]);
        }
        now
    };
    let stops = Expected {
        result: None,
        commits: false,
        goes_on: false,
    };
    let expected = case.expected().unwrap_or(stops);
    node.set.lies_after(case.lies_after, case.lies);
    let up = [a % 9 + 1, b % 9 + 1];
    let [a, b] = attempt(&node, up, expected.result, expected.commits);
    if expected.result.is_none() {
        return; // the runtime has stopped, too
    }
    node.set.lies_after(usize::MAX, [None; 2]);
    node.ends = Ends::Well;
    let goes_on = expected.goes_on;
    let then = Some(if goes_on { Ok(()) } else { Err(FORGOTTEN) });
    let [a, b] = attempt(&node, [a % 9 + 1, b], then, goes_on);
    attempt(&node, [a, b % 9 + 1], then, goes_on);
}

const A: Option<usize> = Some(0);
const B: Option<usize> = Some(1);

/// The list is honest until both are staged.
const NOT_REVERTED: Case = Case {
    lies_after: 4,
    lies: [A, None],
    ends: Ends::IsRefused,
};

/// All lists of two, from each loan on.
#[test]
fn lists_that_differ() {
    let members = [A, B, None];
    let mut stops = 0;
    for lies in members.iter().flat_map(|a| members.map(|b| [*a, b])) {
        for ends in [Ends::Well, Ends::Fails, Ends::IsRefused] {
            for lies_after in 0..8 {
                let case = Case {
                    lies_after,
                    lies,
                    ends,
                };
                if case.expected().is_none() {
                    stops += 1;
                    continue;
                }
                explore_with(case, Mapped::<InOrder32>::new(BYTES), boot).run();
            }
        }
    }
    assert!(stops < 30, "{stops} cases end the process");
}

/// The record of the step's error would commit the lamp that is not reverted.
#[test]
#[cfg_attr(miri, ignore = "Miri starts no process")]
fn a_list_that_keeps_what_has_failed() {
    let mut test = Command::new(std::env::current_exe().expect("this program"));
    let out = test
        .args(["--ignored", "generated::lists::it_stops"])
        .output();
    let out = out.expect("it runs");
    assert!(out.status.code().is_none(), "it aborts: {:?}", out.status);
}

#[test]
#[ignore = "ends the process: `a_list_that_keeps_what_has_failed` runs it"]
fn it_stops() {
    explore_with(NOT_REVERTED, Mapped::<InOrder32>::new(BYTES), boot)
        .depth(0)
        .threads(1)
        .run();
}
