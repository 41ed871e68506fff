//! Generated programs against a model, cut everywhere.

use nv_replay::nvmem::{Buffered32, InOrder16, InOrder32, Model};
use nv_replay::pmem_tx::{self, Width};
use nv_replay::{Config, Error, Message, NotNow, Options, Outlet, Port, Replay};
use powerfail::{Mapped, World, explore_with};
use proptest::prelude::*;
use std::cell::RefCell;

#[derive(Debug, Clone)]
enum Op {
    /// Adds, returns the sum.
    Add(u32),
    /// Changes a value, then aborts.
    Fail(u16),
    Record(u32),
    Send(u32),
    Loop(u32, Vec<Op>),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let leaf = prop_oneof![
        (0..100u32).prop_map(Op::Add),
        (0..9u16).prop_map(Op::Fail),
        (0..100u32).prop_map(Op::Record),
        (0..100u32).prop_map(Op::Send),
    ];
    let inner = leaf.prop_recursive(2, 12, 3, |op| {
        (0..4u32, prop::collection::vec(op, 0..3)).prop_map(|(n, body)| Op::Loop(n, body))
    });
    prop::collection::vec(inner, 1..5)
}

/// The effects of a program: the sum and its messages.
#[derive(Debug, Default, PartialEq)]
struct Effects {
    sum: u32,
    sent: Vec<u32>,
}

fn model(ops: &[Op], i: u32, effects: &mut Effects) {
    for op in ops {
        match op {
            Op::Add(v) => effects.sum += v + i,
            Op::Fail(_) => {}
            Op::Record(v) => effects.sum += v,
            Op::Send(v) => effects.sent.push(v + i),
            Op::Loop(n, body) => (0..*n).for_each(|i| model(body, i, effects)),
        }
    }
}

/// Loop bodies are function pointers and cannot capture: each finds its operations by its path.
type Path = [u8; 4];
std::thread_local!(static PROGRAM: RefCell<Vec<Op>> = const { RefCell::new(Vec::new()) });
fn ops_at(path: Path) -> Vec<Op> {
    PROGRAM.with_borrow(|p| {
        let mut ops = p;
        for i in path.iter().take_while(|i| **i != 0) {
            let Op::Loop(_, body) = &ops[*i as usize - 1] else {
                unreachable!()
            };
            ops = body;
        }
        ops.clone()
    })
}

static PORT: Port<u32> = Port::new(0);
type Rt<'m, M> = Replay<'m, u32, M>;

fn run<M: Model>(rt: &mut Rt<'_, M>, path: Path, i: u32) -> Result<(), Error>
where
    M::Unit: Width,
{
    for (k, op) in ops_at(path).into_iter().enumerate() {
        match op {
            Op::Add(v) => {
                rt.step(v + i, |tx, sum, v| {
                    *sum.get_mut(tx)? += v;
                    Ok(*sum.get(tx))
                })?;
            }
            Op::Fail(code) => {
                let r = rt.step(code, |tx, sum, code| {
                    *sum.get_mut(tx)? = 0;
                    tx.send(&PORT, 12345)?;
                    Err::<(), _>(tx.abort(code))
                });
                assert_eq!(Error::from(r.unwrap_err()), Error::Aborted(code));
            }
            Op::Record(v) => {
                let v = rt.record(v)?;
                rt.step(v, |tx, sum, v| {
                    *sum.get_mut(tx)? += v;
                    Ok(())
                })?;
            }
            Op::Send(v) => rt.step(v + i, |tx, _, v| tx.send(&PORT, v))?,
            Op::Loop(n, _) => {
                let mut inside = path;
                inside[path.iter().position(|i| *i == 0).unwrap()] = k as u8 + 1;
                rt.each_with(0..n, inside, |rt, i, path| run(rt, path, i))?;
            }
        }
    }
    Ok(())
}

struct Sink<'a, 'r>(&'a World<'r, Vec<u32>>);
impl Outlet for Sink<'_, '_> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let v = m.get(&PORT).unwrap().unwrap();
        let n = self.0.with(Vec::len) as u32;
        if m.number == n {
            self.0.update(|w| w.push(v));
        } else {
            assert!(m.number < n);
        }
        Ok(())
    }
}

fn check<M: Model>(ops: &[Op], bits: u8)
where
    M::Unit: Width,
{
    let mut effects = Effects::default();
    model(ops, 0, &mut effects);
    explore_with(
        (ops.to_vec(), effects, bits),
        Mapped::<M>::new(1536),
        |nv, world, (ops, effects, bits)| {
            PROGRAM.replace(ops.clone());
            let mut sink = Sink(world);
            let options = Options {
                table: Config {
                    bytes: 320,
                    outbox_bytes: 8,
                    seq_bits: *bits,
                },
                pool: Some(pmem_tx::Config::SMALL),
                outlet: Some(&mut sink),
                ..Options::default()
            };
            let mut rt = Rt::<M>::open(nv, options, |_| Ok(0)).unwrap();
            run(&mut rt, [0; 4], 0).unwrap();
            assert_eq!(
                rt.step((), |tx, sum, ()| Ok(*sum.get(tx))).unwrap(),
                effects.sum
            );
            assert_eq!(world.get(), effects.sent);
        },
    )
    .run();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 32 }, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn programs_agree_with_the_model(ops in ops(), bits in 3..8u8) {
        check::<InOrder16>(&ops, bits);
        check::<InOrder32>(&ops, bits);
        check::<Buffered32>(&ops, bits);
    }
}
