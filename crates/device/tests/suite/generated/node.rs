//! The devices of a program, and the bodies of its steps.

use super::hardware::{Context, Driver, Hardware, KEEPS, Nak};
use super::model::{InStep, State, Words};
use super::program::{Do, End};
use super::{Shape, Tested};
use core::cell::{Cell, RefCell};
use nv_device::nv_replay::Step;
use nv_device::{
    CallError, Devices, Entry, Events, Joined, Members, Once, Posted, Set, StagedDevice,
};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

type Staged<'h, 'm, C, const D: usize, M> = StagedDevice<'m, Driver<'h, C, D>, M>;

pub struct Node<'h, 'm, S: Shape, M: Tested> {
    pub a: Staged<'h, 'm, S::A, 0, M>,
    pub b: Staged<'h, 'm, S::B, 1, M>,
    pub c: Staged<'h, 'm, S::C, 2, M>,
    pub keeps: Staged<'h, 'm, u32, KEEPS, M>,
    pub short: Events<'m, 2, M>,
    pub long: Events<'m, 8, M>,
    pub last: Breakable,
    pub hardware: &'h Hardware<'h, 'h>,
    /// The step that runs, and what it makes of each possible state.
    pub step: RefCell<(Vec<Do>, End)>,
    pub models: RefCell<Vec<InStep>>,
    /// Its body was run in this boot.
    pub ran: Cell<bool>,
}

impl<S: Shape, M: Tested> Devices for Node<'_, '_, S, M> {
    fn list(&self) -> impl Members {
        let buses = (&self.b, &self.c, &self.keeps);
        (&self.a, &self.long, buses, &self.short, &self.last)
    }
}

/// A member of the set that lets a commit fail after the others were staged: the set has not
/// counted it.
#[derive(Default)]
pub struct Breakable(Cell<bool>);
impl Joined for Breakable {
    fn enter(&self, _: &mut Entry) {}
    fn used(&self) -> u8 {
        self.0.get().into()
    }
    fn stage(&self, _: u32) -> bool {
        self.0.get()
    }
    fn revert(&self) -> bool {
        self.0.get()
    }
    fn finish(&self) -> bool {
        self.0.get()
    }
    fn fall_behind(&self) {}
    fn show(&self) {}
    fn undone(&self) -> bool {
        self.0.set(false);
        false
    }
}

pub type InNode<'a, 'b, 'h, 'm, S, M> = Step<'a, 'b, M, Set<Node<'h, 'm, S, M>>>;

/// Calls `$f` with the staged device of this number.
macro_rules! device {
    ($node:expr, $number:expr, |$device:ident| $f:expr) => {
        match $number {
            0 => {
                let $device = &$node.a;
                $f
            }
            1 => {
                let $device = &$node.b;
                $f
            }
            _ => {
                let $device = &$node.c;
                $f
            }
        }
    };
}
pub(super) use device;

/// The context of a device that this number makes.
fn of<C: Context, const D: usize, M: Tested>(_: &Staged<'_, '_, C, D, M>, value: u32) -> C {
    C::of(value)
}

/// Runs `f`. `None` if it unwinds by itself.
pub fn caught<T>(f: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(t) => Some(t),
        Err(e) if e.is::<Unwinds>() => None,
        Err(e) => resume_unwind(e),
    }
}

/// A driver unwinds, and prints nothing.
struct Unwinds;
fn unwind() -> ! {
    resume_unwind(Box::new(Unwinds))
}

/// All models see this context of a device.
fn staged(models: &mut [InStep], device: u8, context: Words) {
    for m in models {
        m.contexts[usize::from(device)] = context;
    }
}

/// Only the models for which `is` holds are possible.
fn observed(models: &mut Vec<InStep>, what: &str, is: impl Fn(&InStep) -> bool) {
    let before: Vec<_> = models.iter().map(|m| m.before.rings.clone()).collect();
    models.retain(is);
    assert!(!models.is_empty(), "{what}, but the rings are {before:?}");
}

impl<'h, 'm, S: Shape, M: Tested> Node<'h, 'm, S, M> {
    pub fn fail_in(&self, writes: u8) {
        self.hardware.fails_in.set(writes.into());
    }

    /// An interrupt posts `n` events. `committed` sees each of them.
    pub fn post(&self, ring: u8, n: u16, mut committed: impl FnMut(&dyn Fn(&mut State))) {
        let world = self.hardware.world;
        let r = usize::from(ring);
        for k in 0..n {
            let value = (u32::from(k) + world.get().at * 7) & 0xFF;
            let before = world.get().possible;
            let mut after = before.clone();
            let room: Vec<_> = after.iter_mut().map(|s| s.post(r, value)).collect();
            let both = before.iter().chain(&after).cloned().collect();
            world.update(|w| w.possible = both);
            let posted = match ring {
                0 => self.short.post(value),
                _ => self.long.post(value),
            };
            let expected = if room[0] {
                Posted::Stored
            } else {
                Posted::Counted
            };
            assert_eq!(posted, expected);
            assert!(
                room.iter().all(|r| *r == room[0]),
                "all agree on what waits"
            );
            world.update(|w| w.possible = after);
            committed(&|s| {
                s.post(r, value);
            });
        }
    }

    /// The body of a step. Returns whether it aborts.
    pub fn body(&self, step: &InNode<'_, '_, 'h, 'm, S, M>) -> bool {
        self.ran.set(true);
        let (dos, end) = self.step.borrow().clone();
        let world = self.hardware.world;
        let mut models: Vec<_> = world.get().possible.into_iter().map(InStep::new).collect();
        let mut gives_up = false;
        for what in dos {
            let failed = self.one(step, &mut models, what);
            self.fail_in(0);
            if failed && end == End::AbortsAtError {
                gives_up = true;
                break;
            }
        }
        *self.models.borrow_mut() = models.clone();
        self.hardware.followed.borrow_mut().clear();
        if gives_up || end == End::Aborts {
            return true;
        }
        let both = models.iter().flat_map(|m| [m.before.clone(), m.after()]);
        let both = both.collect();
        world.update(|w| w.possible = both);
        false
    }

    /// One thing that a step does. Returns whether a call has failed.
    fn one(&self, step: &InNode<'_, '_, 'h, 'm, S, M>, models: &mut Vec<InStep>, what: Do) -> bool {
        match what {
            Do::Change { device: d, value } => device!(self, d, |device| {
                let to = of(device, value);
                device.change(step, |c| *c = to).expect("a change");
                staged(models, d, to.words());
                false
            }),
            Do::Act {
                device: d,
                value,
                fails,
            } => {
                self.fail_in(fails);
                device!(self, d, |device| {
                    let to = of(device, value);
                    let done = device.at_least_once(step, |call| {
                        *call.context_mut() = to;
                        call.driver().show(to)
                    });
                    if done.is_ok() {
                        staged(models, d, to.words());
                    }
                    done.is_err()
                })
            }
            Do::ActAndFail { device: d, value } => device!(self, d, |device| {
                let to = of(device, value);
                let done = device.at_least_once(step, |call| {
                    *call.context_mut() = to;
                    let _ = call.driver().show(to);
                    Err::<(), _>(Nak)
                });
                assert!(done.is_err());
                true
            }),
            Do::ActAndUnwind { device: d, value } => device!(self, d, |device| {
                let to = of(device, value);
                let done = caught(|| {
                    device.at_least_once(step, |call| -> Result<(), Nak> {
                        *call.context_mut() = to;
                        let _ = call.driver().show(to);
                        // Its next use builds it, also if it is eager.
                        self.hardware.broken[usize::from(d)].set(true);
                        unwind()
                    })
                });
                // Unless the driver could not be built.
                assert!(done.is_none_or(|d| d.is_err()));
                true
            }),
            Do::Nested {
                devices,
                value,
                fails,
            } => self.nested(step, models, devices, value, fails),
            Do::Use { device: d, fails } => {
                let committed = models[0].before.contexts[usize::from(d)];
                device!(self, d, |device| {
                    let done = device.with(|driver, context| {
                        assert_eq!(context.words(), committed, "a use in a step");
                        if fails {
                            let _ = driver.hardware.write(d.into(), [1; 5]);
                            return Err(Nak);
                        }
                        Ok(())
                    });
                    done.is_err()
                })
            }
            Do::Once { fails } => {
                self.fail_in(fails);
                let world = self.hardware.world;
                let done = self.keeps.once(step, |call, key| {
                    call.driver().show(key)?;
                    world.update(|w| (w.kept, w.acted) = (key, w.acted + 1));
                    Ok(())
                });
                match done {
                    Ok(Once::Done(()) | Once::DoneBefore) => {
                        for m in models {
                            m.contexts[KEEPS][0] += 1;
                        }
                        false
                    }
                    Err(CallError::SecondOnce) => false,
                    Err(_) => true,
                }
            }
            Do::BreakJoin => {
                self.last.0.set(true);
                false
            }
            Do::Take(ring) => {
                let r = usize::from(ring);
                let taken = match ring {
                    0 => self.short.take(step),
                    _ => self.long.take(step),
                };
                let taken = taken.expect("a take").map(|e| (e.number, e.value));
                let what = format!("taken {taken:?} of ring {ring}");
                observed(models, &what, |m| m.next(r) == taken);
                for m in models {
                    m.taken[r] += usize::from(taken.is_some());
                }
                false
            }
            Do::Lost(ring) => {
                let r = usize::from(ring);
                let lost = match ring {
                    0 => self.short.lost(step),
                    _ => self.long.lost(step),
                };
                let lost = u32::from(lost.expect("losses"));
                observed(models, &format!("lost {lost} of ring {ring}"), |m| {
                    m.lost(r) == lost
                });
                for m in models {
                    m.told[r] += lost;
                }
                false
            }
            Do::Post(ring, n) => {
                self.post(ring, n, |event| {
                    models.iter_mut().for_each(|m| event(&mut m.before))
                });
                false
            }
        }
    }

    /// A call in which another device is called, or the same one.
    fn nested(
        &self,
        step: &InNode<'_, '_, 'h, 'm, S, M>,
        models: &mut [InStep],
        [d, e]: [u8; 2],
        value: u32,
        [outer_fails, inner_fails]: [u8; 2],
    ) -> bool {
        self.fail_in(outer_fails);
        let mut inner = None;
        device!(self, d, |outer| {
            let to = of(outer, value);
            let done = outer.at_least_once(step, |call| {
                *call.context_mut() = to;
                call.driver().show(to)?;
                self.fail_in(inner_fails);
                device!(self, e, |device| {
                    let to = of(device, value + 1);
                    let done = device.at_least_once(step, |call| {
                        *call.context_mut() = to;
                        call.driver().show(to)
                    });
                    if d == e {
                        assert_eq!(done, Err(CallError::Busy));
                    }
                    inner = done.is_ok().then(|| to.words());
                    if done.is_err() && value.is_multiple_of(2) {
                        return Err(Nak);
                    }
                    Ok(())
                })
            });
            if let Some(words) = inner {
                staged(models, e, words);
            }
            if done.is_ok() {
                staged(models, d, to.words());
            }
            done.is_err()
        })
    }

    pub fn contexts(&self) -> [Words; 4] {
        [
            self.a.context().expect("no call runs").words(),
            self.b.context().expect("no call runs").words(),
            self.c.context().expect("no call runs").words(),
            self.keeps.context().expect("no call runs").words(),
        ]
    }

    /// No step runs: the hardware shows what is committed.
    pub fn check(&self, eager: u8, when: &str) {
        let committed = self.hardware.world.get().possible[0].contexts;
        assert_eq!(self.contexts(), committed[..4], "contexts {when}");
        for (d, context) in committed.iter().enumerate().take(4) {
            if self.hardware.shows_context(d, eager >> d & 1 != 0) {
                assert_eq!(
                    self.hardware.registers[d].get(),
                    *context,
                    "device {d} {when}"
                );
            }
        }
    }

    /// After a step, devices were brought to their contexts in the order of the list.
    pub fn check_order(&self) {
        let followed = self.hardware.followed.borrow();
        assert!(followed.is_sorted(), "the order was {followed:?}");
    }
}
