//! A token takes part in the steps of the runtime with whose numbers it was opened.

use super::kernel::{BYTES, Kernel, options};
use nv_replay::nvmem::{InOrder32, Model, Region};
use nv_replay::pmem_tx::Width;
use nv_replay::{Error, Replay, last_committed};
use powerfail::{Mapped, World, explore};

const RUNTIME: usize = 1536;

fn runtime<M: Model<Unit: Width>>(table: Region<'_, M>) -> Replay<'_, u32, M> {
    Replay::open(table, options(), |_| Ok(0)).unwrap_or_else(|r| panic!("{r}"))
}

fn life(nv: Region<'_, InOrder32>, _: &World<'_, ()>) {
    let (first, second) = nv.split_at(BYTES + RUNTIME).ok().unwrap();
    let [(kernel_a, a), (kernel_b, b)] = [first, second].map(|region| {
        let (words, table) = region.split_at(BYTES).ok().unwrap();
        let number = last_committed(&table).expect("a table");
        (Kernel::recover(words, number), table)
    });
    // The first is ahead: its numbers are no numbers of the second.
    for (table, own, other, turns) in [(a, &kernel_a, &kernel_b, 3), (b, &kernel_b, &kernel_a, 2)] {
        let mut rt = runtime(table);
        for turn in 0..turns {
            let refused = rt.step_with(other, turn, |step, n, _| {
                *n.get_mut(step)? += 1;
                Kernel::raise(step, 0, 1);
                Ok(())
            });
            assert_eq!(refused.map_err(|e| e.error), Err(Error::WrongOwner));
            let refused = rt.each_step_with(other, 0..2, (), |_, _, _, ()| Ok(()));
            assert_eq!(refused, Err(Error::WrongOwner));
            let refused = rt.forever_step_with(other, (), |_, _, _, ()| Ok(()));
            assert_eq!(refused, Err(Error::WrongOwner));
            let done = rt.step_with(own, turn, |step, n, _| {
                *n.get_mut(step)? += 1;
                Kernel::raise(step, 0, 1);
                Ok(())
            });
            done.map_err(Error::from).unwrap();
            if let Some(n) = rt.view(|tx, n| *n.get(tx)).unwrap() {
                assert_eq!(own.sum(), n);
            }
        }
    }
}

#[test]
fn token_of_another_region() {
    explore(Mapped::<InOrder32>::new(2 * (BYTES + RUNTIME)), life)
        .depth(2)
        .run();
}
