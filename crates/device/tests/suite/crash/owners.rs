//! Two programs with devices, and two threads of one region: each step takes the devices whose
//! contexts were opened with its own numbers, and no others.

use crate::crash::{Tested, on_each};
use core::convert::Infallible;
use nv_device::nv_replay::pmem_tx::{Contexts, Sharing};
use nv_device::nv_replay::{Config, Error, Options, Replay, Threads, last_committed};
use nv_device::nvmem::{CommitNumber, InOrder32, Region};
use nv_device::{Committed, Devices, Members, Restore, Set, Staged, StagedDevice, open};
use powerfail::{Mapped, World, explore};
use std::mem::MaybeUninit;

/// Shows nothing.
struct Dark;
impl Restore for Dark {
    type Context = u8;
    type Parts = ();
    type Error = Infallible;
    fn restore(_: &mut (), _: &u8) -> Result<Self, Infallible> {
        Ok(Dark)
    }
}

struct Two<'m, M: Tested>([StagedDevice<'m, Dark, M>; 2]);
impl<M: Tested> Devices for Two<'_, M> {
    fn list(&self) -> impl Members {
        let [a, b] = &self.0;
        (a, b)
    }
}

/// Bytes of a context, and of a runtime.
const CONTEXT: usize = 144;
const RUNTIME: usize = 1024;

/// Sequence numbers have 3 bits, so that a campaign uses each of them again.
const TABLE: Config = Config {
    bytes: 64,
    outbox_bytes: 0,
    seq_bits: 3,
};

fn context<'m, M: Tested>(
    region: Region<'m, M>,
    number: CommitNumber<'_>,
) -> StagedDevice<'m, Dark, M> {
    let opened = open::<(Staged<u8>,), _>(region, Committed::of(number, &TABLE), (0,));
    StagedDevice::new(opened.expect("it opens").0, ())
}

/// Two devices whose contexts were opened with these numbers.
fn set<'m, M: Tested>(region: Region<'m, M>, numbers: [CommitNumber<'_>; 2]) -> Set<Two<'m, M>> {
    let (a, b) = region.split_at(CONTEXT).expect("a length");
    Set::new(Two([context(a, numbers[0]), context(b, numbers[1])]))
}

/// What every commit leaves.
fn agree<M: Tested>(set: &Set<Two<'_, M>>, count: Option<u32>) {
    if let Some(count) = count {
        let contexts = [0, 1].map(|i: usize| set.0[i].context().map(u32::from));
        assert_eq!(contexts, [Some(count); 2]);
    }
}

/// Runs steps with the devices of each runtime. A macro: a program and a thread are other types.
macro_rules! run_all {
    ($turns:literal; $([$rt:ident $set:ident, $others:ident]),+) => {
        $(agree(&$set, $rt.view(|tx, n| *n.get(tx)).expect("it runs"));)+
        for turn in 0..$turns {
            $(
                let wrong = $rt.step_with(&$others, turn, |_, _, _| Ok(()));
                assert_eq!(wrong.map_err(|e| e.error), Err(Error::WrongOwner));
                let wrong = $rt.each_step_with(&$others, 0..1, (), |_, _, _, ()| Ok(()));
                assert_eq!(wrong, Err(Error::WrongOwner));
                let n = $rt.step_with(&$set, turn, |step, count, _| {
                    for device in &step.token().0 {
                        device.change(step, |n| *n += 1)?;
                    }
                    *count.get_mut(step)? += 1;
                    Ok(*count.get(step))
                });
                assert_eq!(n.map_err(|e| e.error), Ok(turn + 1));
                agree(&$set, $rt.view(|tx, n| *n.get(tx)).expect("it runs"));
            )+
        }
    };
}

/// Two programs, each with a region of its own.
fn two<M: Tested>(region: Region<'_, M>, _: &World<'_, ()>) {
    let (first, second) = region.split_at(2 * CONTEXT + RUNTIME).expect("a length");
    let opened = [first, second].map(|region| {
        let (contexts, rest) = region.split_at(2 * CONTEXT).expect("a length");
        let number = last_committed(&rest).expect("a table");
        (set(contexts, [number; 2]), rest)
    });
    let [(set_a, a), (set_b, b)] = opened;
    let [mut a, mut b] = [a, b].map(|rest| {
        let options = Options {
            table: TABLE,
            ..Options::default()
        };
        Replay::<u32, M>::open(rest, options, |_| Ok(0)).unwrap_or_else(|r| panic!("{r}"))
    });
    // The first is ahead: its numbers are no numbers of the second.
    run_all!(2; [a set_a, set_b]);
    run_all!(3; [b set_b, set_a]);
}

/// Two threads of one region.
fn threads<M: Tested>(region: Region<'_, M>, _: &World<'_, ()>) {
    let (contexts, rest) = region.split_at(6 * CONTEXT).expect("a length");
    type Roots = Sharing<(u8,), Contexts<(u32, u32)>>;
    let threads = Threads::<Roots, M>::open(rest, TABLE, None, |_| Ok(((0,), (0, 0))));
    let mut threads = threads.unwrap_or_else(|r| panic!("{r}"));
    let [first, second] = [0, 1].map(|n| threads.last_committed(n).expect("a number"));
    let (own, both) = contexts.split_at(4 * CONTEXT).expect("a length");
    let (of_a, of_b) = own.split_at(2 * CONTEXT).expect("a length");
    let (set_a, set_b) = (set(of_a, [first; 2]), set(of_b, [second; 2]));
    // Its members were opened with the numbers of two threads: no step takes it.
    let of_both = set(both, [first, second]);
    let (a, b) = threads.share().expect("the places").0;
    let mut a = a.open(Options::default()).expect("a thread");
    let mut b = b.open(Options::default()).expect("a thread");
    run_all!(2; [a set_a, set_b], [b set_b, set_a]);
    for rt in [&mut a, &mut b] {
        let none = rt.step_with(&of_both, 0, |_, _, _| Ok(()));
        assert_eq!(none.map_err(|e| e.error), Err(Error::WrongOwner));
    }
}

fn two_programs<M: Tested>() {
    explore(Mapped::<M>::new(2 * (2 * CONTEXT + RUNTIME)), two)
        .depth(2)
        .run();
}
on_each!(programs, two_programs);

fn two_threads<M: Tested>() {
    explore(Mapped::<M>::new(6 * CONTEXT + RUNTIME), threads)
        .depth(2)
        .run();
}
on_each!(of_one_region, two_threads);

/// Contexts that no step commits are no part of any.
#[test]
fn committed_by_nobody() {
    let mut words = vec![MaybeUninit::new(0); (2 * CONTEXT + RUNTIME) / 8];
    let region = Region::<InOrder32>::new(&mut words);
    let (contexts, rest) = region.split_at(2 * CONTEXT).expect("a length");
    let opened = open::<(Staged<u8>, Staged<u8>), _>(contexts, Committed::NOTHING, (0, 0));
    let (a, b) = opened.expect("it opens");
    let set = Set::new(Two([a, b].map(|context| StagedDevice::new(context, ()))));
    let options = Options {
        table: TABLE,
        ..Options::default()
    };
    let rt = Replay::<u32>::open(rest, options, |_| Ok(0));
    let none = rt
        .unwrap_or_else(|r| panic!("{r}"))
        .step_with(&set, 0, |_, _, _| Ok(()));
    assert_eq!(none.map_err(|e| e.error), Err(Error::WrongOwner));
}
