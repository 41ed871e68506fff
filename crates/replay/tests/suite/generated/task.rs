//! A program as a task that waits, over a mirror whose medium fails, or on mapped memory.

use super::blocking::Rt;
use super::drivers::{
    Battery, Handle, Objects, Uptime, adds, count, fails, is_recorded, object, runs, sends, turns,
};
use super::program::Op;
use nv_replay::nvmem::Model;
use nv_replay::pmem_tx::Width;
use nv_replay::{Error, PBox, PoolAccess};
use std::pin::Pin;

/// Sends what waits. A radio that is busy is asked again.
async fn drain<'m, M: Model, P>(rt: &mut Rt<'m, '_, '_, M, P>) -> Result<(), Error>
where
    M::Unit: Width,
    P: PoolAccess<Objects, M>,
{
    while rt.waits() {
        if rt.drain_async(async |d, m| d.send(m).await).await.is_err() {
            rt.durable_async().await?;
        }
    }
    Ok(())
}

/// Runs the block that the program is in. Boxed: a block may have a loop, which has a block.
fn run<'f, 'm, M: Model, P>(
    rt: &'f mut Rt<'m, '_, '_, M, P>,
) -> Pin<Box<dyn Future<Output = Result<(), Error>> + 'f>>
where
    M::Unit: Width,
    P: PoolAccess<Objects, M>,
{
    Box::pin(async move {
        for k in 0.. {
            let Some(op) = rt.env().op(k)? else {
                break;
            };
            call(rt, k, op).await?;
        }
        Ok(())
    })
}

async fn call<'m, M: Model, P>(
    rt: &mut Rt<'m, '_, '_, M, P>,
    k: usize,
    op: &Op,
) -> Result<(), Error>
where
    M::Unit: Width,
    P: PoolAccess<Objects, M>,
{
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
            let named = rt.named(name);
            let x = named.input_async(async |d| d.sensor_async().await).await?;
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
            // Some wait for others.
            if k % 2 == 1 {
                drain(rt).await?;
            }
        }
        Op::Show => {
            let top = rt.named(name).step([0, 0], |tx, top, a| adds(tx, top, a))?;
            rt.env().did(top);
            rt.durable_async().await?;
            rt.env().is_seen();
        }
        Op::Sleep(ticks, survives) => {
            let alarm = rt.env().clock(*survives);
            let ticks = u64::from(*ticks);
            match survives {
                true => rt.named(name).sleep(Battery(alarm), ticks).await?,
                false => rt.named(name).sleep(Uptime(alarm), ticks).await?,
            }
            let top = rt.named(name).step([0, 0], |tx, top, a| adds(tx, top, a))?;
            rt.env().did(top);
        }
        Op::Loop(n, _) => {
            let n = u32::from(*n);
            rt.env().enters(k);
            let each = rt.named(name).each_async(0..n, async |rt, i| {
                rt.env().iterates(i);
                run(rt).await
            });
            each.await?;
            rt.env().leaves(n);
        }
        Op::Turns(n, send) => {
            let n = u32::from(*n);
            rt.named(name)
                .each_step(0..n, *send, |tx, top, i, a| turns(tx, top, i, a))?;
            rt.env().did_steps(n);
            drain(rt).await?;
        }
    }
    Ok(())
}

/// A whole program. What waits since the last boot is sent first.
pub async fn program<'m, M: Model, P>(rt: &mut Rt<'m, '_, '_, M, P>) -> Result<(), Error>
where
    M::Unit: Width,
    P: PoolAccess<Objects, M>,
{
    drain(rt).await?;
    run(rt).await?;
    drain(rt).await?;
    rt.durable_async().await?;
    rt.env().ends();
    Ok(())
}
