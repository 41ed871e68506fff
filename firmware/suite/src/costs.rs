//! What operations cost: measured sections, each in one run from a blank memory to the end. Each is
//! run twice, the first time for what only the first one does; the last figure counts.

use crate::abi::section;
use crate::{Group, Mapped, Scenario, Scene, check, ok};
use core::hint::black_box;
use nv_replay::{Message, NotNow, Options, Outlet, Port, Replay};
use nvmem::{Persist, Unit};
use pmem_tx::{Config, PBox, Pool, Ptr, Width};

/// What transactions cost.
pub const fn tx_group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "tx-costs",
            primitive: "pmem-tx",
            scenarios: &[Scenario::measuring("measure", 1536, tx)],
        }
    }
}

/// What steps cost.
pub const fn replay_group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "replay-costs",
            primitive: "nv-replay",
            scenarios: &[
                Scenario::measuring("measure", 1536, replay),
                Scenario::measuring("loops", 1536, loops),
            ],
        }
    }
}

#[derive(Persist)]
#[repr(C)]
struct Root<'p, W: Width> {
    pair: [u32; 2],
    block: [u32; 16],
    object: Option<PBox<'p, [u32; 8], W>>,
    cell: Ptr<'p, [u32; 2], W>,
}

/// Transactions of `pmem-tx`.
fn tx<M: Mapped>(scene: &mut Scene<'_, M>) {
    const CONFIG: Config = Config {
        journal_entries: 16,
        journal_bytes: 160,
        seq_bits: 16,
    };
    let Ok((first, rest)) = scene.region().split_at(400) else {
        scene.fail(const { crate::code(file!(), line!()) }, "a multiple of 8")
    };
    let Ok((second, plain)) = rest.split_at(1536 - 400 - 8) else {
        scene.fail(const { crate::code(file!(), line!()) }, "a multiple of 8")
    };
    // A pool whose root is the resident object of eight bytes.
    let mut pool = ok!(
        scene,
        Pool::<[u32; 2], M>::open_with(first, &Config::SMALL, |_| Ok([0; 2]))
    );
    for update in [
        section::UPDATE_8_AFTER_OPEN,
        section::UPDATE_8,
        section::UPDATE_8,
    ] {
        scene.measure(section::EMPTY, || ());
        let v = black_box(7u32);
        scene.measure(section::PLAIN_8, || {
            for i in 0..2 {
                let v = if i == 0 { v } else { !v };
                // SAFETY: units of the region, of which nothing is lent.
                unsafe {
                    plain.store(4 * i, v);
                    if M::Unit::BYTES == 2 {
                        plain.store(4 * i + 2, v >> 16);
                    }
                }
            }
        });
        let done = scene.measure(update, || {
            pool.tx(|tx, root| {
                let both = root.get_mut(tx)?;
                both[0] = v;
                both[1] = !v;
                Ok(())
            })
        });
        ok!(scene, done);
    }
    let region = pool.close();
    let opened = scene.measure(section::OPEN, || {
        Pool::<[u32; 2], M>::open_with(region, &Config::SMALL, |_| Ok([0; 2]))
    });
    let mut pool = ok!(scene, opened);
    let pair = ok!(scene, pool.tx(|tx, root| Ok(*root.get(tx))));
    check!(scene, pair == [7, !7]);

    let mut pool = ok!(
        scene,
        Pool::<Root<'static, M::Unit>, M>::open_with(second, &CONFIG, |tx| {
            Ok(Root {
                pair: [0; 2],
                block: [0; 16],
                object: None,
                cell: Ptr::new(tx, [0; 2])?,
            })
        })
    );
    for i in 0..2 {
        let v = black_box(9u32);
        let done = pool.tx(|tx, root| {
            let root = root.get_mut(tx)?;
            root.block[3] = v;
            let object = scene.measure(section::ALLOC_32, || PBox::new(tx, [v; 8]))?;
            scene.measure(section::PTR_WRITE_8, || root.cell.write(tx, [v; 2]))?;
            root.object = Some(object);
            Ok(())
        });
        ok!(scene, done);
        let done = pool.tx(|tx, root| {
            let mut f = root.fields(tx);
            let block = scene.measure(section::FIRST_MUT_64, || f.block.get_mut().map(drop));
            block?;
            scene.measure(section::SECOND_MUT_64, || {
                f.block.get_mut().map(|b| b[5] = v)
            })
        });
        ok!(scene, done);
        let done = pool.tx(|tx, root| {
            let root = root.get_mut(tx)?;
            let object = root.object.take().ok_or(tx.abort(1))?;
            scene.measure(section::FREE_32, || object.free(tx))
        });
        ok!(scene, done);
        let aborted = scene.measure(section::ABORT_8, || {
            pool.tx(|tx, root| {
                let mut f = root.fields(tx);
                f.pair.get_mut()?[0] = v;
                Err::<(), _>(tx.abort(i))
            })
        });
        check!(scene, aborted == Err(pmem_tx::Error::Aborted(i)));
    }
    let end = ok!(
        scene,
        pool.tx(|tx, root| Ok((root.get(tx).pair, root.get(tx).cell.read(tx))))
    );
    check!(scene, end == ([0; 2], [9; 2]));
}

/// Steps of `nv-replay`.
fn replay<M: Mapped>(scene: &mut Scene<'_, M>) {
    let options = || Options {
        table: nv_replay::Config {
            bytes: 192,
            outbox_bytes: 0,
            seq_bits: 16,
        },
        ..Options::default()
    };
    let mut region = scene.region();
    // The first life executes, the second one bypasses the same.
    for [step, result, record, update] in [
        [
            section::STEP_EMPTY,
            section::STEP_RESULT_4,
            section::RECORD_4,
            section::STEP_UPDATE_8,
        ],
        [
            section::BYPASS_STEP,
            section::BYPASS_RESULT_4,
            section::BYPASS_RECORD_4,
            section::BYPASS_UPDATE_8,
        ],
    ] {
        let opened = scene.measure(section::OPEN_REPLAY, || {
            Replay::<[u32; 2], M>::open(region, options(), |_| Ok([0; 2]))
        });
        let mut rt = ok!(scene, opened);
        let v = black_box(7u32);
        for _ in 0..2 {
            let done = scene.measure(step, || rt.step((), |_, _, ()| Ok(())));
            ok!(scene, done);
            let done = scene.measure(result, || rt.step(v, |_, _, v| Ok(v + 1)));
            check!(scene, ok!(scene, done) == 8);
            let done = scene.measure(record, || rt.record(v));
            check!(scene, ok!(scene, done) == 7);
            let done = scene.measure(update, || {
                rt.step(v, |tx, root, v| {
                    let both = root.get_mut(tx)?;
                    both[0] = v;
                    both[1] = !v;
                    Ok(())
                })
            });
            ok!(scene, done);
        }
        let pair = rt.step((), |tx, root, ()| Ok(*root.get(tx)));
        check!(scene, ok!(scene, pair) == [7, !7]);
        region = rt.close();
    }
}

/// The environment of a program that measures its own iterations.
struct Measure<'a, 's, M: Mapped>(&'a Scene<'s, M>);

/// Takes every message.
impl<M: Mapped> Outlet for Measure<'_, '_, M> {
    #[inline(always)]
    fn send(&mut self, message: &Message<'_>) -> Result<(), NotNow> {
        black_box(message.bytes.len());
        Ok(())
    }
}

/// Loops of `nv-replay`, their steps and their messages. A section is what lies between two
/// iterations, or one step in an iteration.
fn loops<M: Mapped>(scene: &mut Scene<'_, M>) {
    const PORT: Port<[u32; 2]> = Port::new(1);
    let region = scene.region();
    let env = Measure(scene);
    let opened = Replay::<u32, M, _>::open_with(region, Options::default(), env, |_| Ok(0));
    let mut rt = ok!(scene, opened);
    let done = rt.named("turn").each(0..6, |rt, _| {
        rt.env().0.next_section(section::TURN);
        Ok(())
    });
    scene.end_section();
    ok!(scene, done);
    let done = rt.named("iteration").each(0..6, |rt, _| {
        rt.env().0.next_section(section::ITERATION_WITH_STEP);
        rt.step((), |_, _, ()| Ok(()))?;
        Ok(())
    });
    scene.end_section();
    ok!(scene, done);
    let done = rt.named("one step").each_step(0..6, (), |_, _, _, ()| {
        Scene::<M>::next_section_anywhere(section::STEP_ITERATION);
        Ok(())
    });
    scene.end_section();
    ok!(scene, done);
    let done = rt.named("step").each(0..6, |rt, _| {
        rt.env().0.next_section(section::STEP);
        let r = rt.step((), |_, _, ()| Ok(()));
        rt.env().0.end_section();
        Ok(r?)
    });
    ok!(scene, done);
    let done = rt.named("send").each(0..6, |rt, i| {
        rt.env().0.next_section(section::SEND);
        let r = rt.step(i, |step, root, i| {
            *root.get_mut(step)? = i;
            step.send(&PORT, [i, !i])
        });
        rt.env().0.end_section();
        Ok(r?)
    });
    ok!(scene, done);
    let last = rt.step((), |tx, root, ()| Ok(*root.get(tx)));
    check!(scene, ok!(scene, last) == 5);
}
