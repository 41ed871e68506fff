//! Random programs against a plain model, without cuts.

use core::mem::MaybeUninit;
use nvmem::{Persist, Region};
use pmem_tx::{Config, Error, Held, PBox, Pool, Ptr, Root, Tx};
use proptest::prelude::*;

/// An operation on the program's data.
#[derive(Debug, Clone)]
enum Op {
    Push(u32),
    Pop,
    /// The `i`-th element, if there are as many.
    Add(usize, u32),
    /// The first and the second element change places, by their handles.
    Swap,
    Cell([u16; 3]),
    Count(u32),
    Element(usize, u16),
    Nested(Vec<Op>, bool),
}

/// An operation with transactions.
#[derive(Debug, Clone)]
enum Step {
    /// Commits or aborts.
    Tx(Vec<Op>, bool),
    /// Takes the list's first node out, as a handle outside, and puts it back as the last.
    Rotate,
    Reopen,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    list: Vec<u32>,
    cell: [u16; 3],
    count: u32,
    last: [u16; 5],
}

impl Model {
    fn apply(&mut self, op: &Op) {
        match op {
            Op::Push(v) => self.list.insert(0, *v),
            Op::Pop => drop((!self.list.is_empty()).then(|| self.list.remove(0))),
            Op::Add(i, v) => {
                if let Some(x) = self.list.get_mut(*i) {
                    *x = x.wrapping_add(*v)
                }
            }
            Op::Swap => {
                if self.list.len() > 1 {
                    self.list.swap(0, 1)
                }
            }
            Op::Cell(v) => self.cell = *v,
            Op::Count(n) => self.count = *n,
            Op::Element(i, v) => self.last[i % 5] = *v,
            Op::Nested(ops, ok) => {
                let before = self.clone();
                ops.iter().for_each(|op| self.apply(op));
                if !ok {
                    *self = before;
                }
            }
        }
    }
}

fn ops(depth: u32) -> BoxedStrategy<Vec<Op>> {
    let leaf = prop_oneof![
        3 => any::<u32>().prop_map(Op::Push),
        2 => Just(Op::Pop),
        2 => (0usize..6, any::<u32>()).prop_map(|(i, v)| Op::Add(i, v)),
        1 => Just(Op::Swap),
        2 => any::<[u16; 3]>().prop_map(Op::Cell),
        1 => any::<u32>().prop_map(Op::Count),
        1 => (0usize..5, any::<u16>()).prop_map(|(i, v)| Op::Element(i, v)),
    ];
    if depth == 0 {
        return prop::collection::vec(leaf, 0..5).boxed();
    }
    let nested = (ops(depth - 1), any::<bool>()).prop_map(|(o, ok)| Op::Nested(o, ok));
    prop::collection::vec(prop_oneof![4 => leaf, 1 => nested], 0..6).boxed()
}

fn program() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (ops(2), prop::bool::weighted(0.7)).prop_map(|(o, ok)| Step::Tx(o, ok)),
        1 => Just(Step::Rotate),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..if cfg!(miri) { 6 } else { 40 })
}

macro_rules! on {
    ($name:ident, $model:ident, $w:ty) => {
        mod $name {
            use super::*;
            type M = nvmem::$model;
            type W = $w;
            include!("model/run.rs");

            proptest! {
                #![proptest_config(ProptestConfig {
                    cases: if cfg!(miri) { 1 } else { 300 },
                    failure_persistence: None,
                    ..ProptestConfig::default()
                })]
                #[test]
                fn programs(steps in program()) {
                    run(&steps)
                }
            }
        }
    };
}
on!(in_order_32, InOrder32, u32);
on!(buffered_32, Buffered32, u32);
on!(in_order_16, InOrder16, u16);
