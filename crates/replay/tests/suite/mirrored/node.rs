//! The programs of the campaigns, and the world that they show things to.

use core::mem::MaybeUninit;
use nv_mirror::{Config, Mirror};
use nv_replay::nvmem::at_rest::{AtRest, Save};
use nv_replay::nvmem::device::Medium;
use nv_replay::nvmem::{InOrder32, Persist, Ram, Region};
use nv_replay::{
    Error, Held, Message, MirroredReplay, NotNow, Options, Outlet, PBox, Port, pmem_tx,
};
use powerfail::World;

/// What is outside of the device.
#[derive(Clone, Hash, Debug, Default, PartialEq)]
pub struct Outside {
    /// How often the sensor was read; also its value.
    pub reads: u32,
    /// Values by message number.
    pub received: Vec<u32>,
    /// Values that the program has shown by itself.
    pub shown: Vec<u32>,
    /// What the program has ended with.
    pub ended: Option<u32>,
}
pub type W<'r> = World<'r, Outside>;

/// The drivers: all of them are the world.
pub struct Drivers<'a, 'r>(pub &'a W<'r>);

impl Drivers<'_, '_> {
    /// Another value at each call.
    pub fn sensor(&mut self) -> u32 {
        self.0.update(|w| w.reads += 1);
        self.0.with(|w| w.reads)
    }

    /// Shows a value. If it was shown before a cut, it must be the same.
    pub fn show(&mut self, i: u32, v: u32) {
        let i = i as usize;
        match self.0.with(|w| w.shown.get(i).copied()) {
            Some(seen) => assert_eq!(seen, v, "value {i} has changed"),
            None => {
                assert_eq!(self.0.with(|w| w.shown.len()), i, "a value is missing");
                self.0.update(|w| w.shown.push(v));
            }
        }
    }
}

impl Outlet for Drivers<'_, '_> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let v = m.get(&PORT).expect("the port").expect("a number");
        receive(self.0, m.number, v);
        Ok(())
    }
}

/// A receiver that knows each number.
pub fn receive(world: &W<'_>, number: u32, v: u32) {
    match world.with(|w| w.received.get(number as usize).copied()) {
        Some(known) => assert_eq!(known, v, "another message {number}"),
        None => {
            let next = world.with(|w| w.received.len());
            assert_eq!(number as usize, next, "a message is missing");
            world.update(|w| w.received.push(v));
        }
    }
}

pub static PORT: Port<u32> = Port::new(1);

#[derive(Persist)]
#[repr(C)]
pub struct Item<'p> {
    pub v: u32,
    pub next: Option<PBox<'p, Item<'p>>>,
}
#[derive(Persist)]
#[repr(C)]
pub struct Top<'p> {
    pub n: u32,
    pub sum: u32,
    /// The last two values, the newest first.
    pub queue: Option<PBox<'p, Item<'p>>>,
}

/// Region and shadow.
pub const WORDS: usize = 2 * 96;
pub type Memory = [MaybeUninit<u64>; WORDS];
pub const MEMORY: Memory = [MaybeUninit::new(0); WORDS];

pub type Rt<'m, 'a, 'r, S> = MirroredReplay<'m, Top<'static>, S, InOrder32, Drivers<'a, 'r>>;

pub fn options<'m>(seq_bits: u8) -> Options<'m> {
    Options {
        table: nv_replay::Config {
            bytes: 160,
            outbox_bytes: 24,
            seq_bits,
        },
        pool: Some(pmem_tx::Config::SMALL),
        ..Options::default()
    }
}

pub fn open<'m, 'a, 'r, S: Save>(
    region: Region<'m, Ram>,
    saver: S,
    world: &'a W<'r>,
    seq_bits: u8,
) -> Result<Rt<'m, 'a, 'r, S>, nv_replay::OpenError> {
    let drivers = Drivers(world);
    let opened = Rt::open_mirrored(region, saver, options(seq_bits), drivers, |_| {
        Ok(Top {
            n: 0,
            sum: 0,
            queue: None,
        })
    });
    opened.map_err(|refused| refused.error)
}

/// A counter and a queue, from a pinned input that is shown at once; each sum is sent.
pub fn station<S: Save>(rt: &mut Rt<'_, '_, '_, S>, hours: u32) -> Result<(), Error> {
    rt.each(0..hours, |rt, hour| {
        let x = rt.input(|d| d.sensor())?;
        rt.durable()?;
        rt.env().show(hour, x);
        sample(rt, x)?;
        rt.step(hour, |tx, top, _| tx.send(&PORT, top.get(tx).sum))?;
        Ok(())
    })
}

/// The same, without showing anything but sums.
pub fn quiet<S: Save>(rt: &mut Rt<'_, '_, '_, S>, hours: u32) -> Result<(), Error> {
    rt.each(0..hours, |rt, hour| {
        let x = rt.input(|d| d.sensor())?;
        sample(rt, x)?;
        rt.step(hour, |tx, top, _| tx.send(&PORT, top.get(tx).sum))?;
        Ok(())
    })
}

/// Several commits before each output.
pub fn batches<S: Save>(rt: &mut Rt<'_, '_, '_, S>, hours: u32) -> Result<(), Error> {
    rt.each(0..hours, |rt, hour| {
        for k in 0..3u32 {
            let x = rt.named(k).input(|d| d.sensor())?;
            rt.named(k).step(x, |tx, top, x| {
                top.get_mut(tx)?.sum += x;
                Ok(())
            })?;
        }
        rt.step(hour, |tx, top, _| {
            let top = top.get_mut(tx)?;
            top.n += 1;
            tx.send(&PORT, top.sum)
        })?;
        Ok(())
    })
}

fn sample<S: Save>(rt: &mut Rt<'_, '_, '_, S>, x: u32) -> Result<(), Error> {
    rt.step(x, |tx, top, x| {
        let top = top.get_mut(tx)?;
        top.n += 1;
        top.sum += x;
        let next = top.queue.take();
        top.queue = Some(PBox::new(tx, Item { v: x, next })?);
        if let Some(first) = &mut top.queue
            && let Some(second) = &mut first.get_mut(tx)?.next
            && let Some(third) = second.get_mut(tx)?.next.take()
        {
            third.into_inner(tx)?;
        }
        Ok(())
    })?;
    Ok(())
}

type H = Held<Item<'static>>;

/// Objects that change hands: from a step to the program, to another step, into the root and back.
/// Each hand-over is sent.
pub fn handles<S: Save>(rt: &mut Rt<'_, '_, '_, S>, hours: u32) -> Result<(), Error> {
    rt.each(0..hours, |rt, hour| {
        let x = rt.input(|d| d.sensor())?;
        let mut a = rt.step_own::<_, H>(x, |tx, _, v| {
            tx.send(&PORT, v)?;
            PBox::new(tx, Item { v, next: None })
        })?;
        let b = rt.step_own::<_, H>((x, 7u32), |tx, _, (v, _)| {
            PBox::new(tx, Item { v, next: None })
        })?;
        rt.step(a.lend(), |tx, _, mut a| {
            a.get_mut(tx)?.v += 1;
            Ok(())
        })?;
        let a = rt.step_own::<_, H>((a, b), |tx, _, (mut a, b)| {
            a.get_mut(tx)?.next = Some(b);
            tx.send(&PORT, a.get(tx).v)?;
            Ok(a)
        })?;
        rt.step(a, |tx, top, a| {
            let top = top.get_mut(tx)?;
            if let Some(old) = top.queue.take() {
                let old = old.into_inner(tx)?;
                top.sum += old.v;
                if let Some(next) = old.next {
                    top.sum += next.into_inner(tx)?.v;
                }
            }
            top.n += 1;
            top.queue = Some(a);
            Ok(())
        })?;
        rt.step(hour, |tx, top, _| tx.send(&PORT, top.get(tx).sum))?;
        Ok(())
    })
}

/// Turns of one step, which send; then a step behind the loop.
pub fn turns<S: Save>(rt: &mut Rt<'_, '_, '_, S>, hours: u32) -> Result<(), Error> {
    let x = rt.input(|d| d.sensor())?;
    rt.each_step(0..hours, x, |tx, top, i, x| {
        let top = top.get_mut(tx)?;
        top.n += 1;
        top.sum += x + i;
        if i % 2 == 1 {
            tx.send(&PORT, top.sum)?;
        }
        Ok(())
    })?;
    rt.step((), |tx, top, ()| tx.send(&PORT, top.get(tx).sum))?;
    Ok(())
}

/// One boot on a medium: opens mirror and runtime, runs the program, and checks its end.
pub fn life<D: Medium>(mut nv: D, world: &W<'_>, config: &Config, run: &Run) {
    let all = 0..nv.capacity();
    let mut memory = MEMORY;
    let (mirror, region) =
        Mirror::open(&mut nv, all, config, &mut memory).expect("only a power cut stops it");
    alive(region, mirror, world, run);
}

/// What a boot does.
#[derive(Clone, Copy)]
pub struct Run {
    pub program: Program,
    pub hours: u32,
    pub seq_bits: u8,
}
#[derive(Clone, Copy)]
pub enum Program {
    Station,
    Quiet,
    Batches,
    Handles,
    Turns,
}

pub fn alive<S: Save>(region: Region<'_, Ram>, saver: S, world: &W<'_>, run: &Run) {
    let mut rt = open(region, saver, world, run.seq_bits).expect("only a power cut stops it");
    let hours = run.hours;
    match run.program {
        Program::Station => station(&mut rt, hours),
        Program::Quiet => quiet(&mut rt, hours),
        Program::Batches => batches(&mut rt, hours),
        Program::Handles => handles(&mut rt, hours),
        Program::Turns => turns(&mut rt, hours),
    }
    .expect("only a power cut stops it");
    let (n, sum) = rt
        .step((), |tx, top, ()| Ok((top.get(tx).n, top.get(tx).sum)))
        .unwrap();
    assert_eq!(n, hours);
    rt.durable().unwrap();
    let w = world.get();
    assert_eq!(w.received.last().copied(), Some(sum), "{w:?}");
    match w.ended {
        Some(ended) => assert_eq!(ended, sum, "the end has changed"),
        None => world.update(|w| w.ended = Some(sum)),
    }
    let (audit, _) = rt.audit().unwrap();
    assert_eq!(audit.unreachable, 0, "{audit:?}");
}

/// A saver that does not save before output, as a program without output commit would.
pub struct Blind<S>(pub S);
impl<S: Save> Save for Blind<S> {
    type Error = S::Error;
    fn committed<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        self.0.committed(owner)
    }
    fn durable_if_due<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        self.0.durable_if_due(owner)
    }
    fn durable<T: AtRest>(&mut self, _: &mut T) -> Result<(), S::Error> {
        Ok(())
    }
}
