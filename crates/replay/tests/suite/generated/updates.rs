//! Programs that are changed between two boots: what a changed program may take over from the old
//! one's records, and what is a divergence.
//!
//! A script is a first program and its editions. Each edition changes the program before it, and
//! says what its open asks for. `History` is the model: it knows the records that there are, and
//! says for each call what it returns and how often its body runs.
//!
//! | the edition | what its open finds |
//! |---|---|
//! | has the same version | all records |
//! | has another one | as its `Update` says: refused, none, or the first ones |
//! | starts over | none |
//!
//! A call is the same if kind, types, name and arguments are. Another one stops the runtime with
//! `Diverged`, and nothing changes: the next edition is made from the program before. A cut repeats
//! the edition, and must lead to the same results.

use super::drivers::{RAN, runs};
use crate::runs::{programs, seed};
use nv_replay::nvmem::{InOrder32, Model, Persist, Region};
use nv_replay::pmem_tx::{self, Width};
use nv_replay::{
    Config, Error, Held, Mismatch, OpenError, Options, PBox, Replay, Root, Step, Update,
};
use powerfail::{Mapped, World, random};
use proptest::prelude::*;

#[derive(Clone, Copy, Hash, Debug, PartialEq)]
enum Kind {
    /// A step that takes a number and returns one.
    Step,
    /// Takes a number of another type.
    Signed,
    /// Returns one of another type.
    Byte,
    /// Takes nothing.
    Bare,
    /// An input: of the type that `Bare` returns.
    Record,
    /// Aborts with its argument.
    Fails,
    /// Makes an object.
    Make,
    /// Lends the newest object to a step that changes it.
    Lend,
    /// A step consumes one of the objects.
    Take,
    /// A loop with a step in its body.
    Loop,
    /// The same loop, but its body does nothing.
    Brief,
    /// A loop of one step.
    Turns,
}

impl Kind {
    fn kindred(self) -> Kind {
        match self {
            Kind::Step => Kind::Signed,
            Kind::Signed => Kind::Byte,
            Kind::Byte | Kind::Fails => Kind::Step,
            Kind::Bare => Kind::Record,
            Kind::Record => Kind::Bare,
            Kind::Make => Kind::Lend,
            Kind::Lend => Kind::Take,
            Kind::Take => Kind::Make,
            Kind::Loop => Kind::Turns,
            Kind::Turns => Kind::Brief,
            Kind::Brief => Kind::Turns,
        }
    }
}

#[derive(Clone, Copy, Hash, Debug, PartialEq)]
struct Call {
    kind: Kind,
    name: u8,
    arg: u8,
}

impl Call {
    /// How many iterations a loop has.
    fn count(self) -> u32 {
        u32::from(self.arg) + 1
    }
}

/// How an edition's program differs from the one before.
#[derive(Clone, Debug)]
enum Change {
    Nothing,
    Kind(usize, Kind),
    /// Another kind that differs in one thing only.
    Kindred(usize),
    Name(usize, u8),
    Arg(usize, u8),
    /// Two neighbours change places.
    Swap(usize),
    /// A call is gone.
    Remove(usize),
    Insert(usize, Call),
    /// Another program.
    All(Vec<Call>),
}

impl Change {
    fn of(&self, before: &[Call]) -> Vec<Call> {
        let mut calls = before.to_vec();
        let len = calls.len();
        match *self {
            Change::All(ref other) => calls.clone_from(other),
            Change::Insert(k, call) => calls.insert(k % (len + 1), call),
            _ if len == 0 => {}
            Change::Nothing => {}
            Change::Kind(k, kind) => calls[k % len].kind = kind,
            Change::Kindred(k) => calls[k % len].kind = calls[k % len].kind.kindred(),
            Change::Name(k, name) => calls[k % len].name = name,
            Change::Arg(k, arg) => calls[k % len].arg = arg,
            Change::Swap(k) => calls.swap(k % len, (k + 1) % len),
            Change::Remove(k) => drop(calls.remove(k % len)),
        }
        calls
    }
}

#[derive(Clone, Debug)]
struct Edition {
    change: Change,
    version: u16,
    update: Update,
    start_over: bool,
    /// The iteration in which loops are left by an error.
    stop: u8,
}

#[derive(Clone, Debug)]
struct Script {
    bits: u8,
    first: Vec<Call>,
    editions: Vec<Edition>,
}

/// What a call returns.
type Got = Result<u32, Error>;

/// A record, as the model knows it.
#[derive(Clone, Hash, Debug)]
struct Record {
    call: Call,
    /// The record that made the object which the call gets.
    object: Option<usize>,
    returns: Result<u32, u16>,
    /// A loop that runs: its iteration, and whether the iteration has its record.
    running: Option<(u32, bool)>,
    /// What the object holds that it has made.
    holds: u32,
}

/// The records that there are, and what the root holds: how many steps, and a number to which each
/// has added its own.
#[derive(Clone, Hash, Debug, Default)]
struct History {
    version: Option<u16>,
    records: Vec<Record>,
    sum: [u32; 2],
}

impl History {
    /// What a body does to the root.
    fn mix(&mut self, value: u32) -> u32 {
        self.sum = mixed(self.sum, value);
        self.sum[1]
    }

    /// What an edition asks for. A record that has given away an object stays if the one that made
    /// it does.
    fn update(&self, edition: &Edition) -> Update {
        match edition.update {
            Update::Keep(n) => {
                let (kept, rest) = self.records.split_at(self.records.len().min(n.into()));
                let gone = |r: &&Record| r.call.kind == Kind::Take && r.object < Some(kept.len());
                match rest.iter().find(gone) {
                    Some(_) => Update::StartOver,
                    None => edition.update,
                }
            }
            update => update,
        }
    }

    /// An edition opens the runtime.
    fn opens(&mut self, edition: &Edition) -> Result<(), OpenError> {
        let recorded = *self.version.get_or_insert(edition.version);
        let whole = self.records.iter().take_while(|r| r.running.is_none());
        let whole = whole.count();
        let keep = match self.update(edition) {
            _ if edition.start_over => 0,
            _ if recorded == edition.version => return Ok(()),
            Update::Refuse => return Err(OpenError::OtherVersion { recorded }),
            Update::StartOver => 0,
            Update::Keep(n) if usize::from(n) > whole => {
                let records = whole as u16;
                return Err(OpenError::NoSuchRecord { records });
            }
            Update::Keep(n) => n.into(),
        };
        self.records.truncate(keep);
        self.version = Some(edition.version);
        Ok(())
    }
}

fn mixed([count, sum]: [u32; 2], value: u32) -> [u32; 2] {
    let sum = sum.wrapping_mul(31).wrapping_add(value + 1);
    [count + 1, sum]
}

/// A program in the model, in one boot.
struct Run<'h> {
    history: &'h mut History,
    stop: u32,
    /// So many records were passed.
    at: usize,
    /// The records of the objects that the program has.
    held: Vec<usize>,
    stopped: Option<Error>,
    /// Of the call: how often a body has run.
    ran: u32,
}

impl Run<'_> {
    fn call(&mut self, call: Call) -> Got {
        self.ran = 0;
        let object = match call.kind {
            Kind::Lend | Kind::Take if self.held.is_empty() => return Ok(0),
            Kind::Lend => self.held.last().copied(),
            Kind::Take => Some(
                self.held
                    .swap_remove(usize::from(call.arg) % self.held.len()),
            ),
            _ => None,
        };
        if let Some(e) = self.stopped {
            return Err(e);
        }
        match self.history.records.get(self.at) {
            Some(record) if !same(record, call, object) => return self.stops(Error::Diverged),
            Some(_) => {}
            None => self.begin(call, object),
        }
        let record = &self.history.records[self.at];
        let returns = record.returns.map_err(Error::Aborted);
        if record.running.is_some() {
            return self.iterate(call);
        }
        if call.kind == Kind::Make {
            self.held.push(self.at);
        }
        self.at += 1;
        returns
    }

    fn stops(&mut self, e: Error) -> Got {
        self.stopped = Some(match e {
            Error::Diverged => e,
            _ => Error::LoopInterrupted,
        });
        Err(e)
    }

    /// The call is executed: its record is the last one.
    fn begin(&mut self, call: Call, object: Option<usize>) {
        let (h, arg) = (&mut *self.history, u32::from(call.arg));
        let (mut running, mut returns) = (None, Ok(0));
        self.ran = 1;
        match call.kind {
            Kind::Step | Kind::Signed => returns = Ok(h.mix(arg)),
            Kind::Byte => returns = Ok(h.mix(arg) & 0xff),
            Kind::Bare => returns = Ok(h.mix(0)),
            Kind::Make => _ = h.mix(arg),
            Kind::Fails => returns = Err(call.arg.into()),
            Kind::Lend | Kind::Take => {
                let made = &mut h.records[object.expect("it has one")];
                made.holds += u32::from(call.kind == Kind::Lend);
                let holds = made.holds;
                returns = Ok(h.mix(holds));
            }
            Kind::Record => (self.ran, returns) = (0, Ok(arg)),
            Kind::Loop | Kind::Brief | Kind::Turns => (self.ran, running) = (0, Some((0, false))),
        }
        self.history.records.push(Record {
            call,
            object,
            returns,
            running,
            holds: arg,
        });
    }

    /// A loop goes on where it is.
    fn iterate(&mut self, call: Call) -> Got {
        let first = self.history.records[self.at].running.expect("it runs");
        let (mut i, mut inner) = first;
        while i < call.count() {
            let stops = i == self.stop;
            match call.kind {
                Kind::Loop => {
                    if !inner {
                        self.ran += 1;
                        self.history.mix(i);
                    }
                    inner = true;
                }
                // The iteration ends before its record.
                Kind::Brief if inner && !stops => return self.stops(Error::Diverged),
                Kind::Turns if !stops => {
                    self.ran += 1;
                    self.history.mix(i);
                }
                _ => {}
            }
            self.history.records[self.at].running = Some((i, inner));
            if stops {
                return self.stops(match call.kind {
                    Kind::Turns => LEFT_TURN,
                    _ => LEFT,
                });
            }
            (i, inner) = (i + 1, false);
        }
        self.history.records[self.at].running = None;
        self.at += 1;
        Ok(0)
    }
}

/// What is compared of a kind: not what a body does.
fn kind(kind: Kind) -> Kind {
    match kind {
        Kind::Brief => Kind::Loop,
        Kind::Fails => Kind::Step,
        kind => kind,
    }
}

/// Whether a call takes this record. Of the kinds that take no argument, none is compared.
fn same(record: &Record, call: Call, object: Option<usize>) -> bool {
    let arg = match call.kind {
        Kind::Bare | Kind::Record | Kind::Lend | Kind::Take => true,
        _ => record.call.arg == call.arg,
    };
    kind(record.call.kind) == kind(call.kind)
        && record.call.name == call.name
        && arg
        && record.object == object
}

/// The errors that leave loops.
const LEFT: Error = Error::Other;
const LEFT_TURN: Error = Error::Aborted(5);

/// The root is what `History::sum` says.
#[derive(Persist)]
#[repr(C)]
struct Sum([u32; 2]);

type Rt<'m, M> = Replay<'m, Sum, M>;
type Object<M> = Held<u32, <M as Model>::Unit>;

std::thread_local! {
    /// The iteration in which loops are left.
    static STOP: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

fn mix<'p, M: Model>(
    tx: &Step<'_, 'p, M>,
    root: &mut Root<'p, Sum, M::Unit>,
    value: u32,
) -> Result<u32, pmem_tx::Error>
where
    M::Unit: Width,
{
    runs(0);
    let Sum(sum) = root.get_mut(tx)?;
    *sum = mixed(*sum, value);
    Ok(sum[1])
}

/// A call of the program. `held` are its objects.
fn make<M: Model>(rt: &mut Rt<'_, M>, call: Call, held: &mut Vec<Object<M>>) -> Got
where
    M::Unit: Width,
{
    let (name, arg) = (u32::from(call.name), u32::from(call.arg));
    let count = call.count();
    match call.kind {
        Kind::Step => Ok(rt.named(name).step(arg, |tx, root, v| mix(tx, root, v))?),
        Kind::Signed => {
            let arg = arg as i32;
            Ok(rt
                .named(name)
                .step(arg, |tx, root, v| mix(tx, root, v as u32))?)
        }
        Kind::Byte => {
            let byte = rt
                .named(name)
                .step(arg, |tx, root, v| Ok(mix(tx, root, v)? as u8))?;
            Ok(byte.into())
        }
        Kind::Bare => Ok(rt.named(name).step((), |tx, root, ()| mix(tx, root, 0))?),
        Kind::Record => rt.named(name).record(arg),
        Kind::Fails => Ok(rt.named(name).step(arg, |tx, root, code| {
            mix(tx, root, 9)?;
            Err::<u32, _>(tx.abort(code as u16))
        })?),
        Kind::Make => {
            held.push(
                rt.named(name)
                    .step_own::<_, Object<M>>(arg, |tx, root, v| {
                        mix(tx, root, v)?;
                        PBox::new(tx, v)
                    })?,
            );
            Ok(0)
        }
        Kind::Lend | Kind::Take if held.is_empty() => Ok(0),
        Kind::Lend => {
            let last = held.len() - 1;
            Ok(rt
                .named(name)
                .step(held[last].lend(), |tx, root, mut object| {
                    let v = object.get_mut(tx)?;
                    *v += 1;
                    let v = *v;
                    mix(tx, root, v)
                })?)
        }
        Kind::Take => {
            let object = held.swap_remove(usize::from(call.arg) % held.len());
            Ok(rt.named(name).step(object, |tx, root, object| {
                let v = object.into_inner(tx)?;
                mix(tx, root, v)
            })?)
        }
        Kind::Loop => rt
            .named(name)
            .each(0..count, |rt, i| {
                rt.named(99).step(i, |tx, root, i| mix(tx, root, i))?;
                if i == STOP.get() { Err(LEFT) } else { Ok(()) }
            })
            .map(|()| 0),
        Kind::Brief => rt
            .named(name)
            .each(
                0..count,
                |_, i| {
                    if i == STOP.get() { Err(LEFT) } else { Ok(()) }
                },
            )
            .map(|()| 0),
        Kind::Turns => rt
            .named(name)
            .each_step(0..count, (), |tx, root, i, ()| {
                if i == STOP.get() {
                    return Err(tx.abort(5));
                }
                mix(tx, root, i)?;
                Ok(())
            })
            .map(|()| 0),
    }
}

/// How far the editions are.
#[derive(Clone, Hash, Debug, Default)]
struct Outside {
    edition: usize,
    /// The edition was cut before.
    cut: bool,
    /// It has begun a new run.
    opened: bool,
    /// So many of its calls have returned.
    returned: usize,
    /// What the edition has found.
    found: History,
    /// The program before it.
    program: Vec<Call>,
    /// How many editions were said to have other arguments, and had another call.
    taken_for_arguments: u32,
}

fn boot<M: Model>(nv: Region<'_, M>, world: &World<'_, Outside>, script: &Script)
where
    M::Unit: Width,
{
    let mut region = nv;
    // A handle of the opening before.
    let mut old = None;
    while let Some(edition) = script.editions.get(world.with(|w| w.edition)) {
        let mut w = world.get();
        if w.edition == 0 {
            w.program.clone_from(&script.first);
        }
        let mut next = Outside {
            edition: w.edition + 1,
            found: w.found.clone(),
            program: edition.change.of(&w.program),
            taken_for_arguments: w.taken_for_arguments,
            ..Outside::default()
        };
        if !w.cut {
            world.update(|w| w.cut = true);
        }
        let options = Options {
            table: Config {
                bytes: 600,
                outbox_bytes: 0,
                seq_bits: script.bits,
            },
            pool: Some(pmem_tx::Config::SMALL),
            version: edition.version,
            update: w.found.update(edition),
            start_over: edition.start_over && !w.opened,
            outlet: None,
        };
        let opened = Rt::<M>::open(region, options, |_| Ok(Sum([0; 2])));
        let wanted = next.found.opens(edition);
        region = match opened {
            Err(refused) => {
                assert_eq!(Some(refused.error), wanted.err());
                next.program = w.program;
                refused.region
            }
            Ok(rt) => {
                assert_eq!(wanted, Ok(()));
                if edition.start_over && !w.opened {
                    world.update(|w| w.opened = true);
                }
                let (diverged, region) = run(rt, world, &w, edition, &mut next, &mut old);
                if diverged {
                    next.program = w.program;
                }
                region
            }
        };
        // Nine bits tell one call from another, so that is rare.
        assert!(next.taken_for_arguments <= 3, "calls are not compared");
        world.update(|w| *w = next);
    }
}

/// Runs an edition. Returns whether it has diverged.
fn run<'m, M: Model>(
    mut rt: Rt<'m, M>,
    world: &World<'_, Outside>,
    w: &Outside,
    edition: &Edition,
    next: &mut Outside,
    old: &mut Option<Object<M>>,
) -> (bool, Region<'m, M>)
where
    M::Unit: Width,
{
    STOP.set(edition.stop.into());
    let mut held = vec![];
    let mut model = Run {
        history: &mut next.found,
        stop: edition.stop.into(),
        at: 0,
        held: vec![],
        stopped: None,
        ran: 0,
    };
    for (k, call) in next.program.iter().enumerate() {
        RAN.take();
        let got = make(&mut rt, *call, &mut held);
        let before = model.stopped;
        let wanted = model.call(*call);
        assert_eq!(got, wanted, "call {k}, {call:?}");
        let ran = RAN.take().is_some();
        let may = model.ran > 0 && k >= w.returned;
        assert!(may || !ran, "call {k} runs again");
        assert!(ran || !may || w.cut, "call {k} does not run");
        if before.is_none() && wanted == Err(Error::Diverged) {
            next.taken_for_arguments += u32::from(diverges(&rt, &model, *call));
        }
        if k >= w.returned {
            world.update(|w| w.returned = k + 1);
        }
    }
    let (stopped, objects) = (model.stopped, model.held.len());
    let live = stopped.is_none() && model.at == model.history.records.len();
    if stopped.is_none() {
        assert_eq!(rt.is_live(), live);
    }
    if !live {
        return (stopped == Some(Error::Diverged), rt.close());
    }
    if let Some(mut old) = old.take() {
        let step = rt
            .named("old")
            .step(old.lend(), |tx, root, _| mix(tx, root, 0));
        assert_eq!(step.map_err(Error::from), Err(Error::WrongPool));
        let turns = rt
            .named("old")
            .each_step(0..2, old.lend(), |tx, root, i, _| {
                mix(tx, root, i)?;
                Ok(())
            });
        assert_eq!(turns, Err(Error::WrongPool));
    }
    *old = held.pop();
    let sum = rt.view(|tx, root| root.get(tx).0);
    assert_eq!(sum, Ok(Some(model.history.sum)));
    let (audit, region) = rt.audit().expect("sound");
    assert_eq!(audit.unreachable, objects, "objects that records own");
    (false, region)
}

/// What a divergence says of itself. Whether it takes another call for other arguments.
fn diverges<M: Model>(rt: &Rt<'_, M>, model: &Run<'_>, call: Call) -> bool
where
    M::Unit: Width,
{
    let said = rt.divergence().expect("it has diverged");
    let record = &model.history.records[model.at];
    let in_loop = u16::from(said.mismatch == Mismatch::RecordsRemain);
    assert_eq!(said.record, model.at as u16 + in_loop);
    let loops = |kind| matches!(kind, Kind::Loop | Kind::Brief | Kind::Turns);
    let (was, is) = (kind(record.call.kind), kind(call.kind));
    let same_call = (was, record.call.name) == (is, call.name);
    let right = match said.mismatch {
        Mismatch::Kind => loops(was) != loops(is),
        Mismatch::Call => loops(was) == loops(is) && !same_call,
        Mismatch::Arguments => loops(was) == loops(is),
        Mismatch::Handles => was == Kind::Take && is == Kind::Take,
        Mismatch::RecordsRemain => record.running.is_some() && loops(is),
        _ => false,
    };
    assert!(right, "{said:?}: {call:?} instead of {record:?}");
    said.mismatch == Mismatch::Arguments && !same_call
}

fn kinds() -> impl Strategy<Value = Kind> {
    use Kind::*;
    prop::sample::select(vec![
        Step, Signed, Byte, Bare, Record, Fails, Make, Make, Lend, Take, Loop, Brief, Turns,
    ])
}

fn calls() -> impl Strategy<Value = Call> {
    (kinds(), 0..2_u8, 0..4_u8).prop_map(|(kind, name, arg)| Call { kind, name, arg })
}

fn changes() -> impl Strategy<Value = Change> {
    let at = 0..8_usize;
    prop_oneof![
        2 => Just(Change::Nothing),
        1 => (at.clone(), kinds()).prop_map(|(k, kind)| Change::Kind(k, kind)),
        3 => at.clone().prop_map(Change::Kindred),
        1 => (at.clone(), 0..3_u8).prop_map(|(k, name)| Change::Name(k, name)),
        2 => (at.clone(), 0..4_u8).prop_map(|(k, arg)| Change::Arg(k, arg)),
        1 => at.clone().prop_map(Change::Swap),
        1 => at.clone().prop_map(Change::Remove),
        3 => (at, calls()).prop_map(|(k, call)| Change::Insert(k, call)),
    ]
}

fn editions() -> impl Strategy<Value = Edition> {
    let update = prop_oneof![
        1 => Just(Update::Refuse),
        2 => Just(Update::StartOver),
        4 => (0..5_u16).prop_map(Update::Keep),
    ];
    let version = prop_oneof![3 => Just(0_u16), 1 => 1..4_u16];
    let stop = prop_oneof![1 => Just(9_u8), 1 => 0..4_u8];
    let all = (changes(), version, update, prop::bool::weighted(0.1), stop);
    all.prop_map(|(change, version, update, start_over, stop)| Edition {
        change,
        version,
        update,
        start_over,
        stop,
    })
}

fn scripts() -> impl Strategy<Value = Script> {
    let bits = prop_oneof![2 => Just(3_u8), 1 => 4..8_u8];
    let first = prop::collection::vec(calls(), 1..6);
    let editions = prop::collection::vec(editions(), 1..9);
    (bits, first, editions).prop_map(|(bits, first, editions)| Script {
        bits,
        first,
        editions,
    })
}

#[test]
fn changed_programs() {
    let media = || Mapped::<InOrder32>::new(2560);
    let s = random(scripts(), media, boot::<InOrder32>);
    let s = s.cases(programs(64)).seed(seed()).run();
    println!("{s}");
}

/// The same program with another argument in its last call.
fn last_call(first: Vec<Call>, args: Vec<u8>, stop: u8) -> Script {
    let last = first.len() - 1;
    let edition = |change, stop| Edition {
        change,
        version: 0,
        update: Update::Refuse,
        start_over: false,
        stop,
    };
    let mut editions = vec![edition(Change::Nothing, stop)];
    editions.extend(
        args.into_iter()
            .map(|arg| edition(Change::Arg(last, arg), 99)),
    );
    Script {
        bits: 8,
        first,
        editions,
    }
}

/// Many objects, one of which is consumed, and then others in its place. Of some of them the eight
/// bits are equal that a record has of its arguments.
fn many_objects() -> impl Strategy<Value = Script> {
    let takes = prop::collection::vec(any::<u8>(), 40);
    (20..40_u8, any::<u8>(), takes).prop_map(|(n, first, takes)| {
        let call = |kind, arg| Call { kind, name: 0, arg };
        let mut calls: Vec<_> = (0..n).map(|i| call(Kind::Make, i)).collect();
        calls.push(call(Kind::Take, first));
        last_call(calls, takes, 99)
    })
}

/// A loop that has come far, and then shorter ones. None goes on in an iteration that it does not
/// have, also if those eight bits are equal.
fn shorter_loops() -> impl Strategy<Value = Script> {
    let counts = prop::collection::vec(any::<u8>(), 40);
    (40..90_u8, any::<bool>(), counts).prop_map(|(at, turns, counts)| {
        let kind = if turns { Kind::Turns } else { Kind::Loop };
        let (name, arg) = (0, at + 9);
        let counts = counts.into_iter().map(|n| n % at).collect();
        last_call(vec![Call { kind, name, arg }], counts, at)
    })
}

/// A loop in whose body is a record, and loops of one step with other names in its place. On 16-bit
/// units eight bits tell them apart; none passes over that record.
fn other_loops() -> impl Strategy<Value = Script> {
    let names = prop::collection::vec(1..255_u8, 40);
    names.prop_map(|names| {
        let call = |kind, name| Call { kind, name, arg: 3 };
        let mut script = last_call(vec![call(Kind::Loop, 0)], vec![], 0);
        let other = |name| Edition {
            change: Change::All(vec![call(Kind::Turns, name)]),
            ..script.editions[0].clone()
        };
        let others: Vec<_> = names.into_iter().map(other).collect();
        script.editions.extend(others);
        script
    })
}

/// Records have few bits of what they are compared by; what must be exact is compared as a whole.
/// No power cut is needed.
#[test]
fn equal_bits() {
    equal::<InOrder32>(many_objects().boxed());
    equal::<InOrder32>(shorter_loops().boxed());
    equal::<InOrder32>(other_loops().boxed());
    equal::<nv_replay::nvmem::InOrder16>(other_loops().boxed());
}

fn equal<M: Model>(scripts: BoxedStrategy<Script>)
where
    M::Unit: Width,
{
    let s = random(scripts, || Mapped::<M>::new(4096), boot::<M>).depth(0);
    let s = s.cases(programs(24)).seed(seed()).run();
    println!("{s}");
}
