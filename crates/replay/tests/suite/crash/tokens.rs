//! A token that changes a tagged word of its own: it takes effect with the step, or not at all.

use super::kernel::{BYTES, Kernel, WORDS, options};
use nv_replay::nvmem::{Model, Region};
use nv_replay::pmem_tx::Width;
use nv_replay::{Error, Replay, last_committed};
use powerfail::{Mapped, World, explore};

type Rt<'m, M> = Replay<'m, u32, M>;

/// Results that the outside world has seen; they must not change.
#[derive(Default, Clone, PartialEq, Eq, Hash, Debug)]
struct WorldState {
    shown: Vec<u32>,
}

fn life<M: Model>(nv: Region<'_, M>, world: &World<'_, WorldState>)
where
    M::Unit: Width,
{
    let (words, table) = nv.split_at(BYTES).ok().unwrap();
    // The words first: those in doubt are reverted before the runtime commits anything.
    let number = last_committed(&table).expect("a table");
    let kernel = Kernel::recover(words, number);
    let mut rt = Rt::<M>::open(table, options(), |_| Ok(0)).ok().unwrap();
    // Whenever the program has passed its records, the counters say what the root says.
    let agree = |rt: &mut Rt<'_, M>| {
        if let Some(n) = rt.view(|tx, n| *n.get(tx)).unwrap() {
            assert_eq!(kernel.sum(), n);
        }
    };
    agree(&mut rt);
    for k in 0..3u32 {
        let n = rt
            .step_with(&kernel, k, |step, n, k| {
                *n.get_mut(step)? += k + 1;
                Kernel::raise(step, k as usize, k + 1);
                Ok(*n.get(step))
            })
            .map_err(Error::from)
            .unwrap();
        match world.with(|w| w.shown.get(k as usize).copied()) {
            Some(seen) => assert_eq!(seen, n),
            None => world.update(|w| w.shown.push(n)),
        }
        agree(&mut rt);
        // A body that fails, and a join that does: nothing of either remains but the error.
        let failed = rt.step_with(&kernel, k, |step, n, _| {
            *n.get_mut(step)? = 99;
            Kernel::raise(step, 0, 5);
            Err::<(), _>(step.abort(7))
        });
        assert_eq!(Error::from(failed.unwrap_err()), Error::Aborted(7));
        agree(&mut rt);
        // A record that is left was refused already.
        kernel.refuses.set(rt.is_live());
        let refused = rt.named("refused").step_with(&kernel, k, |step, n, _| {
            *n.get_mut(step)? = 99;
            Kernel::raise(step, 0, 6);
            Ok(())
        });
        kernel.refuses.set(false);
        assert_eq!(Error::from(refused.unwrap_err()), Error::Aborted(8));
        agree(&mut rt);
    }
    // A number in each turn, and more numbers than there are.
    rt.each_step_with(&kernel, 0..20, (), |step, n, i, ()| {
        *n.get_mut(step)? += 1;
        Kernel::raise(step, i as usize % WORDS, 1);
        Ok(())
    })
    .unwrap();
    agree(&mut rt);
    let n = rt.step((), |tx, n, ()| Ok(*n.get(tx))).unwrap();
    let counted: Vec<u32> = (0..WORDS).map(|i| kernel.get(i)).collect();
    assert_eq!((n, counted), (26, vec![8, 9, 9]));
}

fn run<M: Model>()
where
    M::Unit: Width,
{
    let s = explore(Mapped::<M>::new(2048), |nv, world| life::<M>(nv, world))
        .world(WorldState::default())
        .depth(2)
        .run();
    println!("{}: {s}", M::NAME);
    assert!(s.partial || s.boots > 100, "{s}");
}

on_each_medium!(run: in_order_32);
