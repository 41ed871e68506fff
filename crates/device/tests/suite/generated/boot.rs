//! Runs a program from the operation where the last boot was cut.

use super::hardware::{Context, Driver, Hardware, OWN_KEEPS};
use super::model::{Seen, State, Words, distinct};
use super::node::{Breakable, Node, device};
use super::program::{End, Op, Program, nth, nth_boot};
use super::{Shape, Tested};
use core::cell::{Cell, RefCell};
use nv_device::nv_replay::{Config, Error, Options, Replay, last_committed};
use nv_device::nvmem::Region;
use nv_device::{Committed, Device, Own, Ring, Set, Staged, StagedDevice, open};
use powerfail::World;

const CONTEXTS: usize = 512;
pub const BYTES: usize = CONTEXTS + 2048;

/// One boot of a program.
pub fn boot<S: Shape, M: Tested>(region: Region<'_, M>, world: &World<'_, Seen>, p: &Program) {
    let next = |at: u32| p.ops.get(at as usize).cloned();
    run::<S, M>(region, world, p.eager, p.replays, next);
}

/// One boot of a life that does not end, with operations from a seed.
pub fn forever<S: Shape, M: Tested>(region: Region<'_, M>, world: &World<'_, Seen>, seed: u64) {
    let eager = nth_boot(seed, world.get().at);
    run::<S, M>(region, world, eager, false, |at| Some(nth(seed, at)));
}

const TABLE: Config = Config {
    bytes: 256,
    outbox_bytes: 0,
    seq_bits: 3,
};

/// A device that commits by itself, and what a checkpoint has of it.
struct OwnDevice<'h, 'm, C: Context, const D: usize, M: Tested> {
    device: Device<'m, Driver<'h, C, D>, M>,
    image: Option<(C, bool)>,
}

impl<C: Context, const D: usize, M: Tested> OwnDevice<'_, '_, C, D, M> {
    fn context(&self) -> Words {
        self.device.context().words()
    }

    /// One operation, which leads to this context or to that before it. Returns whether it does.
    fn run(&mut self, op: &Op, value: u32) -> bool {
        match op {
            // A change that is not followed is committed.
            Op::OwnChange { .. } => {
                let _ = self.device.change(value, |c, value| *c = C::of(value));
                true
            }
            Op::OwnAct { .. } => {
                let done = self.device.at_least_once(value, |call, value| {
                    let to = C::of(value);
                    *call.context_mut() = to;
                    call.driver().show(to)
                });
                done.is_ok()
            }
            _ => {
                let image = self.image.expect("there is a checkpoint");
                self.device.own_context().restore_image(image);
                let _ = self.device.restored();
                true
            }
        }
    }

    /// The same, for the model, too.
    fn judged(&mut self, world: &World<'_, Seen>, to: Words, run: impl FnOnce(&mut Self) -> bool) {
        let before = world.get().possible;
        let mut after = before.clone();
        after.iter_mut().for_each(|s| s.contexts[D] = to);
        let both = before.iter().chain(&after).cloned().collect();
        world.update(|w| w.possible = both);
        let done = run(self);
        world.update(|w| w.possible = if done { after } else { before });
    }

    fn change(&mut self, world: &World<'_, Seen>, op: &Op, value: u32) {
        self.judged(world, C::of(value).words(), |own| own.run(op, value));
    }

    fn rewind(&mut self, world: &World<'_, Seen>) {
        match self.image {
            None => self.image = Some(self.device.own_context().image()),
            Some((to, _)) => self.judged(world, to.words(), |own| own.run(&Op::Rewind, 0)),
        }
    }

    fn check(&self, hardware: &Hardware<'_, '_>, eager: u8) {
        let committed = hardware.world.get().possible[0].contexts[D];
        assert_eq!(self.context(), committed);
        if hardware.shows_context(D, eager >> D & 1 != 0) {
            assert_eq!(hardware.registers[D].get(), committed, "own device {D}");
        }
    }
}

impl<C: Context, M: Tested> OwnDevice<'_, '_, C, OWN_KEEPS, M> {
    fn once(&mut self, world: &World<'_, Seen>) {
        let key = self.context()[0] + 1;
        self.judged(world, C::of(key).words(), |own| {
            let done = own.device.once((), |call, key, ()| {
                let driver = call.driver();
                driver.show(C::of(key))?;
                driver.hardware.world.update(|w| w.own_kept = key);
                Ok(())
            });
            done.is_ok()
        });
    }
}

fn run<S: Shape, M: Tested>(
    region: Region<'_, M>,
    world: &World<'_, Seen>,
    eager: u8,
    replays: bool,
    mut next: impl FnMut(u32) -> Option<Op>,
) {
    let hardware = Hardware::new(world);
    let (contexts, rest) = region.split_at(CONTEXTS).map_err(|(e, _)| e).expect("room");
    let number = last_committed(&rest).expect("a table");
    type Items<S> = (
        Staged<<S as Shape>::A>,
        Staged<<S as Shape>::B>,
        Staged<<S as Shape>::C>,
        Staged<u32>,
        Ring<2>,
        Ring<8>,
        Own<<S as Shape>::Own>,
        Own<<S as Shape>::Wide>,
    );
    let (a, b, c) = (S::A::of(1), S::B::of(2), S::C::of(5));
    let (own, wide) = (S::Own::of(6), S::Wide::of(7));
    let blank = State::new([
        a.words(),
        b.words(),
        c.words(),
        [0; 5],
        own.words(),
        wide.words(),
    ]);
    let initial = (a, b, c, 0, (), (), own, wide);
    let opened = open::<Items<S>, _>(contexts, Committed::of(number, &TABLE), initial);
    let (a, b, c, keeps, short, long, own, wide) = opened.expect("the contexts");
    macro_rules! built {
        ($device:ident, $context:ident, $d:literal) => {
            if eager >> $d & 1 != 0 {
                $device::eager($context, &hardware).expect("eager")
            } else {
                $device::new($context, &hardware)
            }
        };
    }
    let set = Set::new(Node::<S, M> {
        a: built!(StagedDevice, a, 0),
        b: built!(StagedDevice, b, 1),
        c: built!(StagedDevice, c, 2),
        keeps: built!(StagedDevice, keeps, 3),
        short,
        long,
        last: Breakable::default(),
        hardware: &hardware,
        step: RefCell::new((vec![], End::Commits)),
        models: RefCell::new(vec![]),
        ran: Cell::new(false),
    });
    let mut own = OwnDevice::<S::Own, OWN_KEEPS, M> {
        device: built!(Device, own, 4),
        image: None,
    };
    let mut wide = OwnDevice::<S::Wide, 5, M> {
        device: built!(Device, wide, 5),
        image: None,
    };
    let options = Options {
        table: TABLE,
        start_over: !replays,
        ..Options::default()
    };
    let mut rt = Replay::<u32, M, _>::open_with(rest, options, (), |_| Ok(0))
        .map_err(|r| r.error)
        .expect("a runtime");

    let [a, b, c, keeps] = set.contexts();
    let contexts = [a, b, c, keeps, own.context(), wide.context()];
    // A runtime that replays shows no data yet.
    let steps = rt.view(|tx, root| *root.get(tx)).expect("the view");
    let waiting = [set.short.waiting(), set.long.waiting()];
    found(world, blank, (contexts, steps, waiting));
    set.check(eager, "at the boot");

    for index in 0.. {
        let Some(op) = next(if replays { index } else { world.get().at }) else {
            break;
        };
        let is_new = !replays || index >= world.get().at;
        if let Op::Step(dos, end) = op {
            *set.step.borrow_mut() = (dos, end);
            set.ran.set(false);
            let done = rt.step_with(&set, index, |step, root, _| {
                if step.token().body(step) {
                    return Err(step.abort(7));
                }
                *root.get_mut(step)? += 1;
                Ok(())
            });
            if set.ran.get() {
                set.check_order();
                let models = set.models.borrow();
                let possible = models.iter().map(|m| match done {
                    Ok(()) => m.after(),
                    Err(_) => m.before.clone(),
                });
                let possible = distinct(possible.collect());
                world.update(|w| (w.possible, w.at) = (possible, w.at + 1));
            } else if done.is_err_and(|e| e.error == Error::TableFull) {
                // The life of the table ends: the next boot starts over.
                return;
            } else {
                assert!(replays, "a step did not run");
            }
        } else if is_new {
            world.update(|w| w.at += 1);
            match op {
                Op::Step(..) => unreachable!("handled above"),
                Op::Post(ring, n) => set.post(ring, n, |_| ()),
                Op::Use { device, fails } => used(&set, device, fails),
                Op::OwnChange {
                    wide: false,
                    value,
                    fails,
                }
                | Op::OwnAct {
                    wide: false,
                    value,
                    fails,
                } => {
                    set.fail_in(fails);
                    own.change(world, &op, value);
                    set.fail_in(0);
                }
                Op::OwnChange { value, fails, .. } | Op::OwnAct { value, fails, .. } => {
                    set.fail_in(fails);
                    wide.change(world, &op, value);
                    set.fail_in(0);
                }
                Op::OwnOnce { fails } => {
                    set.fail_in(fails);
                    own.once(world);
                    set.fail_in(0);
                }
                Op::Rewind => {
                    own.rewind(world);
                    wide.rewind(world);
                }
                Op::Fails(n) => set.fail_in(n),
            }
        }
        set.check(eager, "between steps");
        own.check(&hardware, eager);
        wide.check(&hardware, eager);
        let (acted, kept) = world.with(|w| (w.acted, w.kept));
        assert_eq!(acted, kept, "each key once");
    }
}

/// A boot has found this: only the states that look so are possible.
fn found(
    world: &World<'_, Seen>,
    blank: State,
    (contexts, steps, waiting): ([Words; 6], Option<u32>, [usize; 2]),
) {
    let before = world.get().possible;
    let mut possible = before.clone();
    if possible.is_empty() {
        possible.push(blank);
    }
    possible.retain(|s| {
        let (c, n, w) = s.shown();
        (c, w) == (contexts, waiting) && steps.is_none_or(|steps| steps == n)
    });
    assert!(
        !possible.is_empty(),
        "found {contexts:?}, {steps:?} steps and {waiting:?} events of {before:?}"
    );
    let possible = distinct(possible);
    if possible != before {
        world.update(|w| w.possible = possible);
    }
}

/// A use outside of a step.
fn used<S: Shape, M: Tested>(set: &Node<'_, '_, S, M>, d: u8, fails: u8) {
    let (hardware, number) = (set.hardware, usize::from(d));
    let committed = hardware.world.get().possible[0].contexts[number];
    set.fail_in(fails);
    device!(set, d, |device| {
        let done = device.with(|driver, context| {
            assert_eq!(context.words(), committed);
            let registers = driver.hardware.registers[number].get();
            assert_eq!(registers, committed, "device {d} in use");
            Ok(())
        });
        assert!(done.is_ok() || fails > 0 || hardware.broken[number].get());
    });
    set.fail_in(0);
}
