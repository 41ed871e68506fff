//! A program that waits for its memory: on mapped memory, or over a mirror whose medium fails.

use super::drivers::{
    Drivers, Handle, Objects, adds, count, fails, is_recorded, object, runs, sends, turns,
};
use super::program::Op;
use nv_replay::nvmem::Model;
use nv_replay::pmem_tx::Width;
use nv_replay::{Blocking, Error, PBox, PoolAccess, Replay};

pub type Rt<'m, 'a, 'r, M, P> = Replay<'m, Objects, M, Drivers<'a, 'r>, P>;

/// Runs the block that the program is in.
pub fn run<'m, M: Model, P>(rt: &mut Rt<'m, '_, '_, M, P>) -> Result<(), Error>
where
    M::Unit: Width,
    P: PoolAccess<Objects, M> + Blocking,
{
    for k in 0.. {
        let Some(op) = rt.env().op(k)? else {
            break;
        };
        let name = k as u32;
        match op {
            Op::Add(v) => {
                let top = rt
                    .named(name)
                    .step([u32::from(*v), 0], |tx, top, a| adds(tx, top, a))?;
                rt.env().did(top);
            }
            Op::Fail(code) => {
                let failed = rt.named(name).step(*code, |tx, top, a| fails(tx, top, a));
                is_recorded(failed.map_err(Error::from), *code)?;
                let top = rt.named(name).step([0, 0], |tx, top, a| adds(tx, top, a))?;
                rt.env().did(top);
            }
            Op::Input => {
                let x = rt.named(name).input(|drivers| drivers.sensor())?;
                let top = rt.named(name).step([0, x], |tx, top, a| adds(tx, top, a))?;
                rt.env().did(top);
            }
            Op::Record(v) => {
                let v = rt.named(name).record(u32::from(*v))?;
                let top = rt.named(name).step([v, 0], |tx, top, a| adds(tx, top, a))?;
                rt.env().did(top);
            }
            Op::Object(v) => {
                object!(rt, *v);
            }
            Op::Send => {
                let top = rt.named(name).step((), |tx, top, a| sends(tx, top, a))?;
                rt.env().did(top);
            }
            Op::Show => {
                let top = rt.named(name).step([0, 0], |tx, top, a| adds(tx, top, a))?;
                rt.env().did(top);
                rt.durable()?;
                rt.env().is_seen();
            }
            Op::Sleep(..) => {
                let top = rt.named(name).step([0, 0], |tx, top, a| adds(tx, top, a))?;
                rt.env().did(top);
            }
            Op::Loop(n, _) => {
                let n = u32::from(*n);
                rt.env().enters(k);
                rt.named(name).each(0..n, |rt, i| {
                    rt.env().iterates(i);
                    run(rt)
                })?;
                rt.env().leaves(n);
            }
            Op::Turns(n, send) => {
                let n = u32::from(*n);
                rt.named(name)
                    .each_step(0..n, *send, |tx, top, i, a| turns(tx, top, i, a))?;
                rt.env().did_steps(n);
            }
        }
    }
    Ok(())
}

/// A whole program. What waits for the radio is sent at the end.
pub fn program<'m, M: Model, P>(rt: &mut Rt<'m, '_, '_, M, P>) -> Result<(), Error>
where
    M::Unit: Width,
    P: PoolAccess<Objects, M> + Blocking,
{
    run(rt)?;
    while rt.drain().is_err() {
        rt.durable()?;
    }
    rt.durable()?;
    rt.env().ends();
    Ok(())
}
