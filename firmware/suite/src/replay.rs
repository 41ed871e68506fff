//! Scenarios of `nv-replay`. Each is a program that checks its own results, and what the mailbox
//! was told, in every life.

use crate::{Group, Mapped, Scenario, Scene, check, ok};
use core::cell::Cell;
use nv_replay::{
    Config, Error, Held, Message, NotNow, Options, Outlet, PBox, Port, Replay, Update,
};
use nvmem::{Model, Persist, Region};
use pmem_tx::Width;

/// Steps, inputs and outputs.
pub const fn group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "replay",
            primitive: "nv-replay",
            scenarios: &[
                Scenario::new("steps", 1024, |scene| life(scene, steps)),
                Scenario::new("inputs", 1024, |scene| life(scene, inputs)),
                Scenario::new("outputs", 1024, |scene| life(scene, outputs)),
            ],
        }
    }
}

/// Loops.
pub const fn loops_group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "replay-loops",
            primitive: "nv-replay",
            scenarios: &[
                Scenario::new("loop", 1024, |scene| life(scene, one_loop)),
                Scenario::new("nested_loops", 1024, |scene| life(scene, nested_loops)),
                Scenario::new("step_loops", 1024, |scene| life(scene, step_loops)),
            ],
        }
    }
}

/// Objects that go from step to step.
pub const fn objects_group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "replay-objects",
            primitive: "nv-replay",
            scenarios: &[Scenario::new("objects", 1024, |scene| life(scene, objects))],
        }
    }
}

/// New versions of a program.
pub const fn updates_group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "replay-updates",
            primitive: "nv-replay",
            scenarios: &[
                Scenario::new("update_keeps", 1024, |scene| update(scene, Update::Keep(2))),
                Scenario::new("update_starts_over", 1024, |scene| {
                    update(scene, Update::StartOver)
                }),
            ],
        }
    }
}

/// The cells of the mailbox, beside the first, which counts the top-level records that were told
/// of.
const READINGS: u16 = 1;
const SHOWN: u16 = 2;
const RECEIVED: u16 = 4;

#[derive(Persist)]
#[repr(C)]
struct Item<'p, W: Width> {
    v: u32,
    next: Option<PBox<'p, Item<'p, W>, W>>,
}

#[derive(Persist)]
#[repr(C)]
struct Top<'p, W: Width> {
    n: u32,
    sum: u32,
    list: Option<PBox<'p, Item<'p, W>, W>>,
}
type Rt<'m, M> = Replay<'m, Top<'static, <M as Model>::Unit>, M>;
type Object<M> = Held<Item<'static, <M as Model>::Unit>, <M as Model>::Unit>;

/// A program, with what it may tell and ask.
type Program<M> = for<'a> fn(&mut Rt<'a, M>, &Progress<'_, '_, M>) -> Result<(), Error>;

/// How far this life's program is, and whether it has passed its records.
struct Progress<'a, 's, M: Mapped> {
    scene: &'a Scene<'s, M>,
    record: &'a Cell<u16>,
}

impl<M: Mapped> Progress<'_, '_, M> {
    /// The `k`-th record of the program, counted from 1; when it is passed, it is told.
    fn at<O>(&self, k: u16, f: impl FnOnce() -> Result<O, Error>) -> Result<O, Error> {
        self.record.set(k);
        let o = f()?;
        if self.scene.read_cell(0) < k {
            self.scene.write_cell(0, k);
        }
        Ok(o)
    }

    /// A value that a user saw: it is the same in every life.
    fn show(&self, i: u16, v: u16) {
        match self.scene.read_cell(SHOWN + i) {
            0 => self.scene.write_cell(SHOWN + i, v),
            seen => check!(self.scene, seen == v),
        }
    }
}

static PORT: Port<u16> = Port::new(1);
/// What the messages say, by number.
const SENT: [u16; 5] = [10, 11, 20, 30, 31];

struct Outside<'a, 's, M: Mapped> {
    scene: &'a Scene<'s, M>,
    record: &'a Cell<u16>,
}

impl<M: Mapped> Outlet for Outside<'_, '_, M> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let number = m.number as u16;
        let next = self.scene.read_cell(RECEIVED);
        check!(self.scene, number <= next);
        let wanted = SENT.get(usize::from(number)).copied();
        check!(self.scene, m.get(&PORT) == wanted.map(Ok));
        if number == next {
            self.scene.write_cell(RECEIVED, next + 1);
        }
        Ok(())
    }

    /// What is recorded must be what was told, or one record more.
    fn live(&mut self) {
        let (told, here) = (self.scene.read_cell(0), self.record.get());
        check!(self.scene, here == told || here == told + 1);
    }
}

fn options<'m>(version: u16, update: Update) -> Options<'m> {
    Options {
        table: Config {
            bytes: 200,
            outbox_bytes: 16,
            seq_bits: 4,
        },
        pool: Some(pmem_tx::Config::SMALL),
        version,
        update,
        ..Options::default()
    }
}

/// Opens, runs, and checks what is left behind.
fn life<M: Mapped>(scene: &mut Scene<'_, M>, program: Program<M>) {
    let region = scene.region();
    run(scene, region, 0, Update::Refuse, program);
}

fn run<'m, M: Mapped>(
    scene: &Scene<'_, M>,
    mut region: Region<'m, M>,
    version: u16,
    update: Update,
    program: Program<M>,
) -> Region<'m, M> {
    let record = Cell::new(0);
    let (base, len) = (region.base(), region.len());
    {
        let mut outside = Outside {
            scene,
            record: &record,
        };
        let mut options = options(version, update);
        options.outlet = Some(&mut outside);
        let mut rt = ok!(
            scene,
            Rt::<M>::open(region, options, |_| Ok(Top {
                n: 0,
                sum: 0,
                list: None
            }))
        );
        let progress = Progress {
            scene,
            record: &record,
        };
        ok!(scene, program(&mut rt, &progress));
        check!(scene, rt.is_live());
        let (audit, _) = ok!(scene, rt.audit());
        check!(scene, audit.unreachable == 0);
    }
    // SAFETY: the whole region, which the program has given up; its lifetime had become that of the
    // outlet.
    region = ok!(scene, unsafe { Region::from_raw(base, base.add(len)) });
    region
}

/// The two numbers, read by a step.
fn state<M: Mapped>(rt: &mut Rt<'_, M>) -> Result<(u32, u32), Error> {
    Ok(rt.step((), |tx, t, ()| Ok((t.get(tx).n, t.get(tx).sum)))?)
}

/// Results of no, one and many units; arguments; a step that fails.
fn steps<M: Mapped>(rt: &mut Rt<'_, M>, p: &Progress<'_, '_, M>) -> Result<(), Error> {
    p.at(1, || {
        Ok(rt.step((), |tx, t, ()| {
            t.fields(tx).n.set(1)?;
            Ok(())
        })?)
    })?;
    let a = p.at(2, || {
        Ok(rt.step((), |tx, t, ()| {
            *t.fields(tx).n.get_mut()? += 1;
            Ok(7u8)
        })?)
    })?;
    let b = p.at(3, || {
        Ok(rt.step((a, 3u32), |tx, t, (a, k)| {
            *t.fields(tx).sum.get_mut()? += k;
            Ok((u32::from(a) + k, t.get(tx).n))
        })?)
    })?;
    check!(p.scene, (a, b) == (7, (10, 2)));
    let r = p.at(4, || {
        Ok(rt.step(b.0, |tx, t, _| {
            t.get_mut(tx)?.n = 99;
            Err::<u32, _>(tx.abort(5))
        }))
    })?;
    check!(p.scene, r.map_err(Error::from) == Err(Error::Aborted(5)));
    let c = p.at(5, || {
        Ok(rt.step((), |tx, t, ()| {
            *t.fields(tx).sum.get_mut()? += 1;
            Ok([t.get(tx).sum as u8; 7])
        })?)
    })?;
    check!(p.scene, c == [4; 7]);
    check!(p.scene, p.at(6, || state(rt))? == (2, 4));
    Ok(())
}

/// Reads a sensor, which never shows the same twice.
fn read<M: Mapped>(scene: &Scene<'_, M>) -> u16 {
    let n = scene.read_cell(READINGS) + 1;
    scene.write_cell(READINGS, n);
    n
}

/// Inputs that are pinned before they are used.
fn inputs<M: Mapped>(rt: &mut Rt<'_, M>, p: &Progress<'_, '_, M>) -> Result<(), Error> {
    let x = p.at(1, || rt.record_with(|| read(p.scene)))?;
    p.show(0, x);
    let y = p.at(2, || rt.record(read(p.scene)))?;
    p.show(1, y);
    p.at(3, || {
        Ok(rt.step((x, y), |tx, t, (x, y)| {
            *t.fields(tx).sum.get_mut()? += u32::from(x) * 1000 + u32::from(y);
            Ok(())
        })?)
    })?;
    let all = (0, u32::from(x) * 1000 + u32::from(y));
    check!(p.scene, p.at(4, || state(rt))? == all);
    Ok(())
}

/// Objects that are made, lent, changed, linked, given to the root, taken from it and freed.
fn objects<M: Mapped>(rt: &mut Rt<'_, M>, p: &Progress<'_, '_, M>) -> Result<(), Error> {
    let make = |rt: &mut Rt<'_, M>, v: u32| -> Result<Object<M>, Error> {
        Ok(rt
            .named(v)
            .step_own::<_, Object<M>>(v, |tx, _, v| PBox::new(tx, Item { v, next: None }))?)
    };
    let mut a = p.at(1, || make(rt, 3))?;
    let b = p.at(2, || make(rt, 4))?;
    let v = p.at(3, || {
        Ok(rt.step(a.lend(), |tx, _, mut a| {
            a.get_mut(tx)?.v += 10;
            Ok(a.get(tx).v)
        })?)
    })?;
    check!(p.scene, v == 13);
    p.at(4, || {
        Ok(rt.step((a, b), |tx, t, (mut a, b)| {
            a.get_mut(tx)?.next = Some(b);
            t.get_mut(tx)?.list = Some(a);
            Ok(())
        })?)
    })?;
    let b = p.at(5, || {
        Ok(rt.step_own::<_, Object<M>>((), |tx, t, ()| {
            let list = &mut t.get_mut(tx)?.list;
            let a = list.take().ok_or(tx.abort(1))?.into_inner(tx)?;
            a.next.ok_or(tx.abort(2))
        })?)
    })?;
    p.at(6, || {
        Ok(rt.step(b, |tx, t, b| {
            t.get_mut(tx)?.n = b.into_inner(tx)?.v;
            Ok(())
        })?)
    })?;
    check!(p.scene, p.at(7, || state(rt))? == (4, 0));
    Ok(())
}

/// Outputs of steps that commit, and of one that fails.
fn outputs<M: Mapped>(rt: &mut Rt<'_, M>, p: &Progress<'_, '_, M>) -> Result<(), Error> {
    p.at(1, || {
        Ok(rt.step((), |tx, _, ()| {
            tx.send(&PORT, SENT[0])?;
            tx.send(&PORT, SENT[1])
        })?)
    })?;
    let r = p.at(2, || {
        Ok(rt.step((), |tx, _, ()| {
            tx.send(&PORT, 999)?;
            Err::<(), _>(tx.abort(1))
        }))
    })?;
    check!(p.scene, r.map_err(Error::from) == Err(Error::Aborted(1)));
    p.at(3, || Ok(rt.step((), |tx, _, ()| tx.send(&PORT, SENT[2]))?))?;
    p.at(4, || {
        Ok(rt.step((), |tx, _, ()| {
            tx.send(&PORT, SENT[3])?;
            tx.send(&PORT, SENT[4])
        })?)
    })?;
    check!(p.scene, p.at(5, || state(rt))? == (0, 0));
    check!(p.scene, p.scene.read_cell(RECEIVED) == SENT.len() as u16);
    Ok(())
}

/// A loop: in each iteration an input, and a step that knows which iterations were before it.
fn one_loop<M: Mapped>(rt: &mut Rt<'_, M>, p: &Progress<'_, '_, M>) -> Result<(), Error> {
    let rounds = u32::from(p.scene.rounds(3));
    p.at(1, || {
        rt.each(0..rounds, |rt, i| {
            let x = rt.record(i * 7)?;
            rt.step((i, x), |tx, t, (i, x)| {
                let mut t = t.fields(tx);
                if *t.n.get() != i {
                    return Err(tx.abort(1));
                }
                t.n.set(i + 1)?;
                let sum = t.sum.get().wrapping_add(x);
                t.sum.set(sum)?;
                Ok(())
            })?;
            Ok(())
        })
    })?;
    let sum = (0..rounds).fold(0u32, |s, i| s.wrapping_add(i * 7));
    check!(p.scene, p.at(2, || state(rt))? == (rounds, sum));
    Ok(())
}

/// Loops inside loops, with steps before, between and after.
fn nested_loops<M: Mapped>(rt: &mut Rt<'_, M>, p: &Progress<'_, '_, M>) -> Result<(), Error> {
    let k = p.at(1, || rt.record(2u32))?;
    p.at(2, || {
        rt.each_with(0..2, k, |rt, i, k| {
            let x = rt.step((i, k), |tx, t, (i, k)| {
                *t.fields(tx).n.get_mut()? += k;
                Ok(i + 1)
            })?;
            rt.each_with(0..2, x, |rt, _, x| {
                rt.step(x, |tx, t, x| {
                    *t.fields(tx).sum.get_mut()? += x;
                    Ok(())
                })?;
                Ok(())
            })?;
            rt.step((), |tx, t, ()| {
                *t.fields(tx).n.get_mut()? += 10;
                Ok(())
            })?;
            Ok(())
        })
    })?;
    p.at(3, || rt.each(5..6, |_, _| Ok(())))?;
    check!(p.scene, p.at(4, || state(rt))? == (24, 6));
    Ok(())
}

/// Loops of one step: one whose turns know which turns were before it, and some behind records that
/// an outer loop leaves behind.
fn step_loops<M: Mapped>(rt: &mut Rt<'_, M>, p: &Progress<'_, '_, M>) -> Result<(), Error> {
    let rounds = u32::from(p.scene.rounds(3));
    p.at(1, || {
        rt.each_step(0..rounds, 7u32, |tx, t, i, k| {
            let mut t = t.fields(tx);
            if *t.n.get() != i {
                return Err(tx.abort(1));
            }
            t.n.set(i + 1)?;
            let sum = t.sum.get().wrapping_add(i * k);
            t.sum.set(sum)
        })
    })?;
    p.at(2, || {
        rt.each(0..2, |rt, i| {
            for k in 0..2 * (1 - i) {
                rt.step(k, |_, _, _| Ok(()))?;
            }
            rt.each_step(0..2, i, |tx, t, _, i| {
                *t.fields(tx).n.get_mut()? += i + 1;
                Ok(())
            })
        })
    })?;
    let sum = (0..rounds).fold(0u32, |s, i| s.wrapping_add(i * 7));
    check!(p.scene, p.at(3, || state(rt))? == (rounds + 6, sum));
    Ok(())
}

/// The beginning of both versions: a change, and an input that the mailbox saw.
fn beginning<M: Mapped>(rt: &mut Rt<'_, M>, p: &Progress<'_, '_, M>) -> Result<u16, Error> {
    rt.named(1).step_own::<_, ()>((), |tx, t, ()| {
        *t.fields(tx).n.get_mut()? += 1;
        Ok(())
    })?;
    let x = rt
        .named(2)
        .step_own::<_, u16>(p.scene.read_cell(READINGS), |_, _, x| Ok(x + 5))?;
    Ok(x)
}

fn old<M: Mapped>(rt: &mut Rt<'_, M>, p: &Progress<'_, '_, M>) -> Result<(), Error> {
    let x = beginning(rt, p)?;
    check!(p.scene, x == 5);
    rt.named(3).step_own::<_, ()>((), |tx, t, ()| {
        *t.fields(tx).n.get_mut()? += 10;
        Ok(())
    })?;
    Ok(())
}

fn new<M: Mapped>(rt: &mut Rt<'_, M>, p: &Progress<'_, '_, M>) -> Result<(), Error> {
    let x = beginning(rt, p)?;
    check!(p.scene, x == 5);
    rt.named(4).step_own::<_, ()>(x, |tx, t, x| {
        *t.fields(tx).sum.get_mut()? += u32::from(x);
        Ok(())
    })?;
    let (n, sum) = rt
        .named(5)
        .step_own::<_, (u32, u32)>((), |tx, t, ()| Ok((t.get(tx).n, t.get(tx).sum)))?;
    p.show(0, n as u16);
    check!(p.scene, sum == 5);
    Ok(())
}

/// A program, run to its end; then its new version, which keeps the first records or starts over.
fn update<M: Mapped>(scene: &mut Scene<'_, M>, update: Update) {
    const INSTALLED: u16 = 5;
    let mut region = scene.region();
    // What the old version records says nothing about the mailbox's first cell.
    if scene.read_cell(INSTALLED) == 0 {
        region = run(scene, region, 0, Update::Refuse, old);
        scene.write_cell(INSTALLED, 1);
    }
    run(scene, region, 1, update, new);
    // Kept, the first step is not done again.
    let n = if matches!(update, Update::Keep(_)) {
        11
    } else {
        12
    };
    check!(scene, scene.read_cell(SHOWN) == n);
}
