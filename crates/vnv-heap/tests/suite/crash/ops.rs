//! Every operation in both promises, cut everywhere, on bytes behind a driver and on mapped memory;
//! and the boot after it cut again.

use crate::crash::support::{Known, NARROW, Op, Save, WIDE, program};
use nvmem::{Buffered32, InOrder16, InOrder32};
use powerfail::{Mapped, Simulated, SpiFram, World, explore_with};
use vnv_heap::{JustInTime, Snapshot};

const SIZE: usize = 600;

macro_rules! explored {
    ($promise:ty, $media:expr, $config:expr, $ops:expr $(, $method:ident $n:expr)?) => {{
        let s = explore_with($ops.to_vec(), $media, |nv, w: &World<Known>, ops| {
            program::<$promise, _>(nv, $config, w, ops)
        })
        .depth(2)
        $(.$method($n))?
        .run();
        println!("{s}");
        assert!(s.partial || s.boots > 50, "{s}");
    }};
}

fn bytes<P: Save>(ops: &[Op]) {
    explored!(P, Simulated::<SpiFram>::new(SIZE), NARROW, ops)
}

fn wide<P: Save>(ops: &[Op]) {
    explored!(P, Simulated::<SpiFram>::new(SIZE), WIDE, ops)
}

fn mapped<P: Save>(ops: &[Op]) {
    // Between two fences there are dozens of stores: too many states for every run.
    explored!(P, Mapped::<Buffered32>::new(SIZE), NARROW, ops, sample 64);
    if !cfg!(miri) {
        explored!(P, Mapped::<InOrder32>::new(SIZE), NARROW, ops);
        explored!(P, Mapped::<InOrder16>::new(SIZE), NARROW, ops);
    }
}

macro_rules! each {
    ($($name:ident: $on:ident $($op:expr),+;)*) => {
        mod just_in_time {
            use super::*;
            $(#[test]
            fn $name() {
                use Op::*;
                $on::<JustInTime>(&[$($op),+]);
            })*
        }
        mod snapshot {
            use super::*;
            $(#[test]
            fn $name() {
                use Op::*;
                $on::<Snapshot>(&[$($op),+]);
            })*
        }
    };
}
each! {
    push_and_pop: bytes Push(1), Push(2), Pop;
    what_is_owned_is_freed: bytes Push(1), Push(2), Clear;
    data_and_values: bytes Push(1), Data(7), Values(9);
    another_blob: bytes Blob(1), Blob(2), Write(3);
    churn: bytes Churn, Forget, Blob(4);
    one_for_another: wide Push(1), Push(2), Push(3), Values(9), Data(7);
    on_mapped_memory: mapped Push(1), Blob(3), Pop, Write(4);
}
