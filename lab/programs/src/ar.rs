//! Activity recognition: a hundred rounds. Each makes a model and statistics, learns 16 windows at
//! rest and 16 in motion, and recognises 64 others by the nearest one that it has learnt. A window
//! is three samples of an accelerometer.
//!
//! One thread, no objects of the kernel. Each window is read, reduced and used in one step.

use super::nv_rtos::nvmem::{Persist, Region};
use super::nv_rtos::pmem_tx::PBox;
use super::nv_rtos::{self, Error, Room, Thread};
use crate::support::{Fram, Machine, SEQ_BITS, Unit, input, mix, rounds, run};

/// How often it is done.
pub const ROUNDS: u32 = 100;
/// Windows of each kind that are learnt.
pub const LEARNT: u32 = 16;
/// Windows that are recognised.
pub const WINDOWS: u32 = 64;
/// Samples of a window.
pub const SAMPLES: usize = 3;
/// What is not larger is noise.
pub const NOISE: i32 = 4;

nv_rtos::system! {
    /// One thread.
    Plan on Fram;
    table { bytes: 80, outbox_bytes: 0, seq_bits: SEQ_BITS }
    pool { journal_entries: 6, journal_bytes: 64, seq_bits: SEQ_BITS }
    objects {}
    threads {
        recognise(Device<'static> = Device::NEW): 1;
    }
}

/// What a window is reduced to.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub struct Features {
    /// The squared magnitude of the mean.
    mean: u32,
    /// That of the mean deviation from it.
    deviation: u32,
}
const NONE: Features = Features {
    mean: 0,
    deviation: 0,
};

/// The features that were learnt: at rest, then in motion.
type Model = [Features; 2 * LEARNT as usize];
/// Windows at rest and in motion that were recognised, and how many were what they are.
type Statistics = [u32; 3];

/// The running round, and what those before have found.
#[derive(Persist)]
#[repr(C)]
pub struct Device<'p> {
    model: Option<PBox<'p, Model, Unit>>,
    statistics: Option<PBox<'p, Statistics, Unit>>,
    rounds: u32,
    moving: u32,
    right: u32,
    hash: u32,
}

impl Device<'_> {
    const NEW: Self = Device {
        model: None,
        statistics: None,
        rounds: 0,
        moving: 0,
        right: 0,
        hash: 0,
    };
}

/// The three axes of a sample, without noise.
fn sample(n: u32, moving: bool) -> [i32; 3] {
    let x = input(n);
    [x, x >> 8, x >> 16].map(|axis| {
        let axis = (axis & 255) as i32 - 128;
        let axis = if moving { axis } else { axis >> 3 };
        if axis.abs() > NOISE { axis } else { 0 }
    })
}

/// Reads a window, and reduces it.
fn window(n: u32, moving: bool) -> Features {
    let n = n * SAMPLES as u32;
    let samples = [
        sample(n, moving),
        sample(n + 1, moving),
        sample(n + 2, moving),
    ];
    let mut features = NONE;
    for axis in 0..3 {
        let of = samples.map(|s| s[axis]);
        let mean = of.iter().sum::<i32>() / SAMPLES as i32;
        let deviation = of.iter().map(|v| (v - mean).abs()).sum::<i32>() / SAMPLES as i32;
        features.mean += (mean * mean) as u32;
        features.deviation += (deviation * deviation) as u32;
    }
    features
}

/// Whether the nearest features that were learnt are of motion.
fn is_moving(model: &Model, window: Features) -> bool {
    let (mut nearest, mut least) = (0, u32::MAX);
    for (n, f) in model.iter().enumerate() {
        let far = f.mean.abs_diff(window.mean) + f.deviation.abs_diff(window.deviation);
        if far < least {
            (nearest, least) = (n, far);
        }
    }
    nearest >= LEARNT as usize
}

fn recognise(th: &mut Thread<Plan, Device<'static>>) -> Result<[u32; 4], Error> {
    th.each(0..rounds(ROUNDS), (), |th, round, ()| {
        th.step((), |sys, device, ()| {
            let mut device = device.fields(sys);
            *device.model.get_mut()? = Some(PBox::new(sys, [NONE; 2 * LEARNT as usize])?);
            *device.statistics.get_mut()? = Some(PBox::new(sys, [0; 3])?);
            Ok(())
        })?;
        let first = round * (2 * LEARNT + WINDOWS);
        th.each_step(0..2 * LEARNT, first, |sys, device, n, first| {
            let features = window(first + n, n >= LEARNT);
            let model = device.fields(sys).model.into_follow();
            *model.ok_or(sys.abort(1))?.at_mut(n as usize)? = features;
            Ok(())
        })?;
        th.each_step(0..WINDOWS, first + 2 * LEARNT, |sys, device, n, first| {
            let moves = n % 2 == 1;
            let features = window(first + n, moves);
            let mut device = device.fields(sys);
            let model = device.model.follow().ok_or(sys.abort(1))?;
            let moving = is_moving(model.get(), features);
            let statistics = device.statistics.into_follow();
            let statistics = statistics.ok_or(sys.abort(1))?.into_mut()?;
            statistics[usize::from(moving)] += 1;
            statistics[2] += u32::from(moving == moves);
            Ok(())
        })?;
        th.step((), |sys, device, ()| {
            let device = device.get_mut(sys)?;
            device.model.take().ok_or(sys.abort(1))?.free(sys)?;
            let statistics = device.statistics.take().ok_or(sys.abort(1))?;
            let [still, moving, right] = statistics.into_inner(sys)?;
            if still + moving != WINDOWS {
                return Err(sys.abort(2));
            }
            device.rounds += 1;
            device.moving += moving;
            device.right += right;
            device.hash = mix(device.hash, right << 8 | moving);
            Ok(())
        })?;
        Ok(())
    })?;
    Ok(th.step((), |sys, device, ()| {
        let d = device.get(sys);
        Ok([d.rounds, d.moving, d.right, d.hash])
    })?)
}

/// One boot: runs the thread to its end. Returns the rounds, the windows in motion that it has
/// recognised, how many windows were right, and a hash of these by rounds.
pub fn boot(memory: Region<'_, Fram>, machine: &Machine<'_>) -> Option<[u32; 4]> {
    let mut room = Room::new();
    let (kernel, threads) = Plan::open_in(&mut room, memory).ok()?;
    let (places, _) = threads.share().ok()?;
    let found = core::cell::Cell::new(None);
    let recognised = |th: &mut Thread<Plan, Device<'static>>| {
        found.set(Some(recognise(th)?));
        Ok(())
    };
    run!(machine, kernel, 1 threads, |port| {
        Plan::spawn(kernel, places, port, recognised)
    });
    (kernel.ended(0) == Some(Ok(()))).then(|| found.get())?
}
