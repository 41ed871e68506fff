//! A multi-layer perceptron: a hundred inferences. Each makes two layers of neurons, computes the
//! ten of the first and the two of the second one, a step for each, and reads the outputs.
//!
//! One thread, no objects of the kernel.

use super::nv_rtos::nvmem::{Persist, Region};
use super::nv_rtos::pmem_tx::PBox;
use super::nv_rtos::{self, Error, Room, Thread};
use crate::model::{HIDDEN, INPUTS, LAYER_1, LAYER_2, OUTPUTS, SIGNAL};
use crate::support::{Fram, Machine, SEQ_BITS, Unit, hidden, mix, rounds, run};

/// How many inferences there are. Each is of another part of the signal.
pub const ROUNDS: u32 = 100;

nv_rtos::system! {
    /// One thread.
    Plan on Fram;
    table { bytes: 80, outbox_bytes: 0, seq_bits: SEQ_BITS }
    pool { journal_entries: 6, journal_bytes: 64, seq_bits: SEQ_BITS }
    objects {}
    threads {
        infer(Network<'static> = Network::NONE): 1;
    }
}

/// The layers of the running inference, and what those before have found.
#[derive(Persist)]
#[repr(C)]
pub struct Network<'p> {
    first: Option<PBox<'p, [i32; HIDDEN], Unit>>,
    second: Option<PBox<'p, [i32; OUTPUTS], Unit>>,
    rounds: u32,
    /// How often the first output was the larger one.
    larger: u32,
    hash: [u32; OUTPUTS],
}

impl Network<'_> {
    const NONE: Self = Network {
        first: None,
        second: None,
        rounds: 0,
        larger: 0,
        hash: [0; OUTPUTS],
    };
}

/// A neuron: the weighted sum of its inputs, if that is positive.
#[inline(never)]
fn neuron<const N: usize>(weights: &[i32; N], inputs: &[i32; N]) -> i32 {
    let products = weights.iter().zip(inputs).map(|(w, x)| w * x);
    products.sum::<i32>().max(0)
}

fn infer(th: &mut Thread<Plan, Network<'static>>) -> Result<[u32; 4], Error> {
    th.each(0..rounds(ROUNDS), (), |th, round, ()| {
        th.step((), |sys, network, ()| {
            let mut network = network.fields(sys);
            *network.first.get_mut()? = Some(PBox::new(sys, [0; HIDDEN])?);
            *network.second.get_mut()? = Some(PBox::new(sys, [0; OUTPUTS])?);
            Ok(())
        })?;
        th.each_step(0..HIDDEN as u32, round, |sys, network, n, round| {
            let n = n as usize;
            let from = round as usize % (SIGNAL.len() - INPUTS);
            let inputs = hidden(&SIGNAL)[from..].first_chunk();
            let inputs = inputs.ok_or(sys.abort(2))?;
            let value = neuron(&hidden(&LAYER_1)[n], inputs) >> 8;
            let layer = network.fields(sys).first.into_follow();
            *layer.ok_or(sys.abort(1))?.at_mut(n)? = value;
            Ok(())
        })?;
        th.each_step(0..OUTPUTS as u32, (), |sys, network, n, ()| {
            let n = n as usize;
            let mut network = network.fields(sys);
            let inputs = network.first.follow().ok_or(sys.abort(1))?;
            let value = neuron(&hidden(&LAYER_2)[n], inputs.get());
            let layer = network.second.into_follow();
            *layer.ok_or(sys.abort(1))?.at_mut(n)? = value;
            Ok(())
        })?;
        th.step((), |sys, network, ()| {
            let network = network.get_mut(sys)?;
            network.first.take().ok_or(sys.abort(1))?.free(sys)?;
            let second = network.second.take().ok_or(sys.abort(1))?;
            let [a, b] = second.into_inner(sys)?;
            network.rounds += 1;
            network.larger += u32::from(a > b);
            network.hash[0] = mix(network.hash[0], a as u32);
            network.hash[1] = mix(network.hash[1], b as u32);
            Ok(())
        })?;
        Ok(())
    })?;
    Ok(th.step((), |sys, network, ()| {
        let n = network.get(sys);
        Ok([n.rounds, n.larger, n.hash[0], n.hash[1]])
    })?)
}

/// One boot: runs the thread to its end. Returns the rounds, how often the first output was the
/// larger one, and a hash of each output.
pub fn boot(memory: Region<'_, Fram>, machine: &Machine<'_>) -> Option<[u32; 4]> {
    let mut room = Room::new();
    let (kernel, threads) = Plan::open_in(&mut room, memory).ok()?;
    let (places, _) = threads.share().ok()?;
    let found = core::cell::Cell::new(None);
    let inferred = |th: &mut Thread<Plan, Network<'static>>| {
        found.set(Some(infer(th)?));
        Ok(())
    };
    run!(machine, kernel, 1 threads, |port| {
        Plan::spawn(kernel, places, port, inferred)
    });
    (kernel.ended(0) == Some(Ok(()))).then(|| found.get())?
}
