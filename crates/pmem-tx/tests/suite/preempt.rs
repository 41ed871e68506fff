//! Two contexts of one pool: one preempts the other at every store, read and fence. The power fails
//! at every instant of that: in either context and in the recovery.
//!
//! `cargo test -p pmem-tx --test suite preempt:: -- --nocapture` prints the number of cuts.

mod cells;
mod model;
mod threads;

use model::{Case, Masked, Open, run};
use nvmem::{Buffered32, InOrder16, InOrder32, Model};
use pmem_tx::{Preempted, Width};
use powerfail::{Explore, Mapped, Summary, explore_with};

type On<M> = Preempted<M, Masked>;

fn campaign<M: Model>(case: &Case) -> Explore<Mapped<M>, (u32, u32)>
where
    M::Unit: Width,
{
    let nv = Mapped::<M>::with_image(model::image::<M>(case.tight));
    explore_with(case.clone(), nv, |nv, w, case| run::<M>(nv, w, case))
        // Each unit of a lent range may be old or new after a cut; explore some combinations.
        .limit(24)
        .preempt()
}

fn cases() -> Vec<Case> {
    use model::Op::*;
    let case = |before: &[_], low: &[_], high: &[_]| Case {
        tight: false,
        before: before.to_vec(),
        low: low.to_vec(),
        high: high.to_vec(),
    };
    let tight = |low: &[_], high: &[_]| Case {
        tight: true,
        ..case(&[], low, high)
    };
    vec![
        // Both allocate; the search of one is interrupted.
        case(&[], &[Push(5)], &[Push(7)]),
        case(&[], &[Push(5)], &[Big(7)]),
        // One context frees a block or gives it back; the other could take it.
        case(&[], &[Pop], &[Push(7), Push(8)]),
        case(&[], &[Abort(9)], &[Push(7), Push(8)]),
        case(&[], &[NewCell(3)], &[Push(7), Cell(8)]),
        case(&[], &[Pop], &[Big(7)]),
        case(&[Big(1)], &[Big(2)], &[Big(3), Pop]),
        // The only free blocks are those that an abort gives back, one by one.
        tight(&[Abort(9)], &[Push(7), Push(8), Push(9)]),
        tight(&[Nested(9)], &[Push(7), Push(8)]),
        // One context joins the blocks at which the search of the other stands.
        case(&[], &[Push(5)], &[Pop, Big(7)]),
        case(&[], &[Big(5)], &[Pop, Big(7)]),
        // Updates and aborts on both sides.
        case(&[], &[Update(5)], &[Update(6)]),
        case(&[], &[Abort(5)], &[Abort(6)]),
        case(&[], &[Pop], &[Abort(6)]),
        case(&[], &[Nested(5)], &[Push(6), Pop]),
        // In the transactions before a number comes round.
        case(&[Update(1), Cell(2)], &[Cell(5)], &[Pop, Big(7)]),
        case(&[Cell(1), Cell(2)], &[Abort(5)], &[NewCell(7), Push(8)]),
    ]
}

/// Every `every`-th case, on one kind of medium. Under Miri, which is slow, one.
fn all<M: Model>(every: usize) -> Summary
where
    M::Unit: Width,
{
    let cases = cases();
    let every = if cfg!(miri) { cases.len() } else { every };
    let some = cases.iter().step_by(every);
    some.fold(Summary::default(), |sum, case| {
        sum + campaign::<M>(case).name(&format!("{case:?}")).run()
    })
}

/// The whole campaign: allocate, free, update and abort on both sides, preempted anywhere and cut
/// anywhere.
#[test]
fn contexts_preempt_each_other() {
    let (mut cuts, mut part) = (0, false);
    for s in [
        all::<On<InOrder32>>(1),
        all::<On<InOrder16>>(3),
        all::<On<Buffered32>>(1),
    ] {
        println!("{s}");
        cuts += s.cuts;
        part |= s.partial;
    }
    // A failure panics, so it is not counted here.
    println!("contexts.preempted_cuts {cuts}");
    println!("contexts.preempted_failures 0");
    assert!(part || cuts >= 10_000, "{cuts}");
}

/// Without a critical section the same campaign must fail.
#[test]
#[cfg_attr(miri, ignore = "what two owners of a block do is undefined")]
fn contexts_fail_without_a_section() {
    let failed = |case: &Case| campaign::<InOrder32>(case).try_run().is_err();
    let failed: Vec<bool> = cases().iter().map(failed).collect();
    println!("{failed:?}");
    // Allocations on both sides, and freed blocks that are taken before the commit.
    assert!(failed[0] && failed[2], "{failed:?}");
}

/// One transaction for each context, interrupted anywhere, without a cut of its own: also under
/// Miri.
#[test]
fn a_body_is_no_section() {
    let mut words = model::memory();
    let mut pool = model::open::<On<InOrder32>>(nvmem::Region::new(&mut words));
    let (a, b) = pool.contexts();
    let mut open: Open<'_, On<InOrder32>> = (a, b);
    // One transaction inside of the other's body.
    let n = open.0.tx(|tx, root| {
        *root.fields(tx).done.get_mut()? += 1;
        let inner = open.1.tx(|tx, root| {
            *root.fields(tx).done.get_mut()? += 1;
            Ok(root.get(tx).done)
        })?;
        Ok(inner + root.get(tx).done)
    });
    assert_eq!(n, Ok(2));
}
