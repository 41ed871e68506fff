//! Every operation, cut at every crash point, on every mapped model; and the recovery cut again.

use crate::crash::support::{CONFIG, Op, TestPool, model, open, run, view};
use crate::turns::in_turn;
use nvmem::{Buffered32, InOrder16, InOrder32, Model, Region};
use pmem_tx::Width;
use powerfail::{Mapped, Summary, World, explore_with};

/// Continues after the operations that were committed before the cut.
pub fn program<M: Model>(region: Region<'_, M>, world: &World<'_, u32>, ops: &Vec<Op>)
where
    M::Unit: Width,
{
    let mut pool = open(region);
    let (done, seen) = view(&mut pool);
    let sure = world.get();
    assert!(
        done == sure || done == sure + 1,
        "{sure} acknowledged, {done} found"
    );
    assert_eq!(
        seen,
        model(&ops[..done as usize]),
        "after {done} operations"
    );
    assert_eq!(pool.audit().map(|a| a.unreachable), Ok(0));
    if done > sure {
        world.acknowledge(done);
    }
    for (i, op) in ops.iter().enumerate().skip(done as usize) {
        run(&mut pool, *op).unwrap_or_else(|e| panic!("{op:?}: {e}"));
        world.acknowledge(i as u32 + 1);
    }
}

fn explore_ops<M: Model>(ops: &[Op], depth: u32) -> Summary
where
    M::Unit: Width,
{
    explore_with(ops.to_vec(), Mapped::<M>::new(768), |nv, w, ops| {
        program::<M>(nv, w, ops)
    })
    .depth(depth)
    .run()
}

/// Behind a buffer, where a cut leaves the most states, every other program is cut twice in each
/// run. Under Miri, which is slow, runs on one model at a time.
fn all_models(ops: &[Op]) {
    let turn = in_turn(ops.len() as u64, 2);
    let models = [
        (explore_ops::<InOrder32> as fn(&[Op], u32) -> Summary, 2),
        (explore_ops::<InOrder16>, 2),
        (explore_ops::<Buffered32>, turn),
    ];
    for (i, (explore, depth)) in models.into_iter().enumerate() {
        if cfg!(miri) && ops.len() % 3 != i {
            continue;
        }
        let s = explore(ops, depth);
        println!("{s}");
        assert!(s.partial || s.boots > 50, "{s}");
    }
}

macro_rules! each {
    ($($name:ident: $($op:expr),+;)*) => {$(
        #[test]
        fn $name() {
            use Op::*;
            all_models(&[$($op),+]);
        }
    )*};
}
each! {
    push_and_pop: Push(5), Push(6), Pop, Push(7), Pop, Pop;
    fields_and_elements: Fields(3), Fields(9), Fields(1);
    a_node_behind_a_handle: Push(5), Node(1), Node(2);
    cells: Cell(1), Cell(2), CellTwice(3), Cell(5);
    aborts: Push(1), Abort(9), Cell(2), Abort(8);
    nested: Nested(4), Nested(6);
    cells_come_and_go: NewCell(3), Cell(4), NewCell(5);
    allocated_and_freed: Churn, Push(1), Churn;
    // More transactions than sequence numbers, of different lengths, so that stale entries remain.
    numbers_come_round: Nested(1), Cell(1), Fields(2), Push(2), Cell(2), Fields(3), Pop, Cell(3), Node(1), Fields(1),
        Cell(4), Fields(5), Cell(5), Fields(6), Nested(2), Fields(7);
    // The last number of a round, 7, is used by a long transaction; it comes again after short
    // ones.
    the_last_number_comes_round: Cell(1), Cell(2), Cell(3), Cell(4), Cell(5), Cell(6), Nested(7), Cell(8), Cell(9),
        Cell(10), Cell(11), Cell(12), Cell(13), Cell(14);
}

/// The same without the walk: the state after a cut is complete, and nothing needs to be reclaimed.
#[test]
fn nothing_leaks_even_when_nothing_is_reclaimed() {
    use Op::*;
    fn program<M: Model>(region: Region<'_, M>, world: &World<'_, u32>, ops: &Vec<Op>)
    where
        M::Unit: Width,
    {
        // SAFETY: nothing but this program writes to the region.
        let pool = unsafe {
            TestPool::<M>::open_trusting(region, &CONFIG, |tx| {
                Ok(crate::crash::support::Top {
                    done: 0,
                    list: None,
                    cell: Some(pmem_tx::Ptr::new(tx, [0; 4])?),
                    pair: [0; 3],
                })
            })
        };
        let mut pool = pool.unwrap_or_else(|r| panic!("open: {r}"));
        assert_eq!(pool.audit().map(|a| a.unreachable), Ok(0));
        let (done, seen) = view(&mut pool);
        assert_eq!(seen, model(&ops[..done as usize]));
        for (i, op) in ops.iter().enumerate().skip(done as usize) {
            run(&mut pool, *op).unwrap();
            world.acknowledge(i as u32 + 1);
        }
    }
    let ops = vec![Push(1), Nested(2), Pop, NewCell(2), Churn, Pop];
    explore_with(ops.clone(), Mapped::<InOrder32>::new(768), |nv, w, ops| {
        program::<InOrder32>(nv, w, ops)
    })
    .depth(2)
    .run();
    explore_with(ops, Mapped::<Buffered32>::new(768), |nv, w, ops| {
        program::<Buffered32>(nv, w, ops)
    })
    .depth(2)
    .run();
}
