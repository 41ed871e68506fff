//! Executes a script: each operation against the store, and then against the judge.

use super::judge::{Ram, Saved, Seen};
use super::program::{Endless, Op, Script};
use super::stores::Layout;
use crate::faulty::{Control, Failed, Fault, Faulty};
use crate::runs::seed;
use checkpoint::{Error, Store};
use nvmem::device::{Medium, Torn};
use powerfail::World;
use std::sync::Arc;

/// The number of the first build.
pub const BUILD: u64 = 0x2024_0001_0000_0007;

/// One boot of a script, from the operation after the one where the last boot was cut.
pub fn boot<L: Layout, D: Medium>(nv: D, world: &World<'_, Seen>, script: &Script) {
    let next = |at: u32| script.ops.get(at as usize).copied();
    run::<L, _>(nv, world, script.adaptive, next);
}

/// A boot of a program that goes on for ever.
pub fn forever<L: Layout, P: Endless, D: Medium>(nv: D, world: &World<'_, Seen>) {
    run::<L, _>(nv, world, true, |at| Some(P::operation(seed(), at)));
}

/// The number of a program that is no build of this one.
const FOREIGN_BUILD: u64 = 7;

/// The context of the memory that the first build begins with. Each update has its own.
const FIRST_CONTEXT: u32 = u32::MAX;

/// What one execution works with.
struct Run<'w, 'r> {
    control: std::rc::Rc<Control>,
    world: &'w World<'r, Seen>,
    /// Whether words of the medium may be unstable.
    unstable: bool,
}

fn run<L: Layout, D: Medium>(
    nv: D,
    world: &World<'_, Seen>,
    adaptive: bool,
    mut next: impl FnMut(u32) -> Option<Op>,
) {
    let run = Run {
        control: Control::new(),
        world,
        unstable: D::CONTRACT.torn == Torn::Unstable,
    };
    let mut nv = Faulty::new(nv, &run.control);
    let mut fault = Fault::None;
    while let Some(op) = run.session::<L, _>(&mut nv, adaptive, fault, &mut next) {
        fault = Fault::None;
        match op {
            Op::Boot(meets) => fault = meets,
            Op::Other => run.others::<L, _>(&mut nv),
            Op::Update => world.update(Seen::update),
            Op::Foreign(meets) => run.foreign::<L, _>(&mut nv, meets),
            op => unreachable!("{op:?} ends no session"),
        }
    }
}

impl Run<'_, '_> {
    /// Opens the store, loads, and goes on up to an operation that ends this opening, which it
    /// returns. Opening and loading meet `fault`.
    fn session<L: Layout, D: Medium>(
        &self,
        nv: &mut Faulty<D>,
        adaptive: bool,
        fault: Fault,
        next: &mut impl FnMut(u32) -> Option<Op>,
    ) -> Option<Op> {
        let updates = self.world.with(|w| w.updates);
        let again = Some(Op::Boot(Fault::None));
        self.control.meets(fault);
        let opened = L::open(&mut *nv, BUILD + updates as u64, adaptive);
        let Some(mut store) = self.done("open", opened) else {
            return again;
        };
        // An archive may roll back before it loads.
        let at = self.world.with(|w| w.at);
        if let Some(Op::RollBack(nth, fault)) = next(at) {
            self.world.update(|w| w.at += 1);
            self.rolls_back::<L, _>(&mut store, nth, fault, &mut Ram::filled(7, updates));
        }
        let found = match self.load(&mut store) {
            Ok(found) => found,
            Err(Failed) => return again,
        };
        let (mut ram, mut context) = match &found {
            Some(found) => (found.ram.clone(), found.context),
            None => (Ram::filled(7, updates), FIRST_CONTEXT - updates as u32),
        };
        loop {
            let at = self.world.with(|w| w.at);
            let op = next(at)?;
            let saved = Arc::new(Saved {
                ram: ram.clone(),
                context,
            });
            self.world.update(|w| {
                w.at += 1;
                if let Op::Save(_) = op {
                    w.begins(&saved);
                    if L::ARCHIVES {
                        w.archives(&saved);
                    }
                }
            });
            match op {
                Op::Fill {
                    at: from,
                    len,
                    byte,
                } => {
                    let bytes = ram.bytes().skip(from.into()).take(len.into());
                    bytes.for_each(|b| *b = byte);
                    context = at;
                }
                Op::Use { heap, stack } => {
                    (ram.heap_used, ram.stack_from) = (heap.into(), stack.into());
                    context = at;
                }
                Op::Save(fault) => {
                    self.control.meets(fault);
                    let done = store.save(&ram.memory(), context);
                    if self.done("save", done).is_some() {
                        self.world.update(|w| {
                            w.counts(&saved);
                            w.saves += 1;
                        });
                    }
                }
                Op::Load(fault) => {
                    self.control.meets(fault);
                    if let Ok(Some(found)) = self.load(&mut store) {
                        (ram, context) = (found.ram.clone(), found.context);
                    }
                }
                Op::RollBack(nth, fault) => {
                    if self.rolls_back::<L, _>(&mut store, nth, fault, &mut ram)
                        && let Ok(Some(found)) = self.load(&mut store)
                    {
                        (ram, context) = (found.ram.clone(), found.context);
                    }
                }
                Op::Delete(nth, fault) => {
                    if let Some((_, sequence)) = self.nth::<L, _>(&mut store, nth) {
                        self.control.meets(fault);
                        let done = L::delete(&mut store, sequence);
                        // The newest is refused, if the medium lets it find out which one that is.
                        if nth == 0 && !self.control.has_failed() {
                            assert!(matches!(done, Err(Error::Newest)), "{done:?}");
                        } else if self.archived("delete", done) {
                            self.world.update(|w| w.deletes(sequence));
                        }
                    }
                }
                Op::Boot(_) | Op::Other | Op::Foreign(_) | Op::Update => return Some(op),
            }
        }
    }

    /// The result of a call. `None` if it failed, which it does if and only if the medium has.
    #[track_caller]
    fn done<T>(&self, call: &str, done: Result<T, Error<Failed>>) -> Option<T> {
        let failed = self.control.has_failed();
        match done {
            Ok(done) => {
                assert!(!failed, "{call}: an error of the medium is lost");
                Some(done)
            }
            Err(Error::Medium(Failed)) if failed => None,
            Err(e) => panic!("{call}: {e:?}"),
        }
    }

    /// The same for an archive's call, which may find what a deletion has left that was cut.
    #[track_caller]
    fn archived(&self, call: &str, done: Result<(), Error<Failed>>) -> bool {
        if let Err(Error::Damaged | Error::NoImage) = done
            && self.unstable
        {
            return false;
        }
        self.done(call, done).is_some()
    }

    /// Loads. `None`: there is no checkpoint.
    fn load(&self, store: &mut impl Store<Error = Failed>) -> Result<Option<Arc<Saved>>, Failed> {
        let updates = self.world.with(|w| w.updates);
        let mut found = Ram::filled(0xA5, updates);
        let loaded = store.load(&mut found.memory());
        let mut seen = self.world.get();
        let found = match loaded {
            // Checkpoints of an earlier build.
            Err(Error::NoImage | Error::OtherProgram { .. } | Error::OtherMemory) => {
                assert!(!self.control.has_failed(), "an error of the medium is lost");
                seen.restores_nothing(self.unstable);
                None
            }
            loaded => {
                let restored = self.done("load", loaded).ok_or(Failed)?;
                assert_eq!(restored.damaged, 0, "no cut leaves damage");
                Some(seen.restores(&found, restored.context, self.unstable))
            }
        };
        self.world.set(seen);
        Ok(found)
    }

    /// Makes the n-th checkpoint of an archive the newest. `false` if there is none.
    fn rolls_back<L: Layout, D: Medium<Error = Failed>>(
        &self,
        store: &mut L::In<D>,
        nth: u8,
        fault: Fault,
        ram: &mut Ram,
    ) -> bool {
        let Some((context, sequence)) = self.nth::<L, _>(store, nth) else {
            return false;
        };
        let old = self.world.with(|w| w.listed(context));
        self.world.update(|w| w.begins(&old));
        self.control.meets(fault);
        let done = L::roll_back(store, sequence, &ram.memory());
        if self.archived("roll_back", done) {
            self.world.update(|w| w.counts(&old));
        }
        self.control.meets(Fault::None);
        true
    }

    /// The n-th checkpoint of an archive, or one of the last.
    fn nth<L: Layout, D: Medium<Error = Failed>>(
        &self,
        store: &mut L::In<D>,
        nth: u8,
    ) -> Option<(u32, u32)> {
        self.control.meets(Fault::None);
        let list = L::list(store).expect("no fault");
        self.world.with(|w| w.lists(&list));
        list.get(usize::from(nth)).copied()
    }

    /// Programs of another build, and with other memory: nothing is restored or written.
    fn others<L: Layout, D: Medium>(&self, nv: &mut Faulty<D>) {
        let updates = self.world.with(|w| w.updates);
        let build = BUILD + updates as u64;
        let others = [
            (build, Ram::filled(0xA5, updates + 1)),
            (build, Ram::with_more_stack(0xA5, updates)),
            (build + 1, Ram::filled(0xA5, updates)),
        ];
        for (build, garbage) in others {
            self.control.meets(Fault::None);
            let mut ram = garbage.clone();
            let mut store = L::open(&mut *nv, build, false).expect("no fault");
            let loaded = store.load(&mut ram.memory());
            assert!(loaded.is_err(), "another program's: {loaded:?}");
            let changes = (self.control.writes(), self.control.erases());
            assert_eq!(changes, (0, 0), "it writes nothing");
            assert_eq!(ram, garbage, "memory is unchanged");
        }
    }

    /// A program of another build saves, and does not load. It spares the newest checkpoint, whose
    /// ever it is.
    fn foreign<L: Layout, D: Medium>(&self, nv: &mut Faulty<D>, fault: Fault) {
        if !L::SHARED || !self.world.with(|w| w.settled) {
            return;
        }
        self.world.update(|w| w.settled = false);
        self.control.meets(Fault::None);
        let mut store = L::open(nv, FOREIGN_BUILD, false).expect("no fault");
        self.control.meets(fault);
        let saved = store.save(&Ram::filled(0x3C, 0).memory(), 0);
        self.done("save of another program", saved);
    }
}
