//! A super-loop through more than a thousand reboots, with sequence numbers that wrap many times.

use nv_replay::nvmem::{Buffered32, InOrder16, InOrder32, Model, Region};
use nv_replay::pmem_tx::{self, Held, Width};
use nv_replay::{Config, Error, Message, NotNow, Options, Outlet, PBox, Port, Replay};
use powerfail::{EveryEvents, Mapped, World, endure};

type Rt<'m, M> = Replay<'m, [u32; 2], M>;
static PORT: Port<u32> = Port::new(1);

/// The number of the next message.
#[derive(Clone, Hash, Debug, Default)]
struct WorldState {
    next: u32,
}
struct Sink<'a, 'r>(&'a World<'r, WorldState>);
impl Outlet for Sink<'_, '_> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        assert_eq!(
            m.get(&PORT),
            Some(Ok(m.number)),
            "every third iteration sends"
        );
        let next = self.0.get().next;
        assert!(
            m.number == next || m.number + 1 == next,
            "{} after {next}",
            m.number
        );
        if m.number == next {
            self.0.update(|w| w.next += 1);
        }
        Ok(())
    }
}

/// Iterations of different lengths, with steps, failures, inner loops, objects and messages.
fn iteration<M: Model>(rt: &mut Rt<'_, M>, i: u32) -> Result<(), Error>
where
    M::Unit: Width,
{
    let n = rt.step((), |tx, r, ()| {
        let r = r.get_mut(tx)?;
        r[0] += 1;
        Ok(r[0])
    })?;
    assert_eq!(n - 1, i, "an iteration was lost, or done twice");
    match i % 4 {
        0 => {
            let f = rt.step(i, |tx, r, _| {
                r.get_mut(tx)?[0] = 0;
                Err::<(), _>(tx.abort(9))
            });
            assert!(f.is_err());
        }
        1 => rt.each_with(0..3, n, |rt, _, n| {
            rt.step(n, |tx, r, n| {
                let r = r.get_mut(tx)?;
                r[1] = r[1].wrapping_add(n);
                Ok(())
            })?;
            Ok(())
        })?,
        2 => {
            let h = rt.step_own::<_, Held<u64, M::Unit>>(n, |tx, _, n| PBox::new(tx, n.into()))?;
            let v = rt.step(h, |tx, _, h| h.into_inner(tx))?;
            assert_eq!(v, u64::from(n));
        }
        _ => {}
    }
    if i.is_multiple_of(3) {
        rt.step(i / 3, |tx, _, k| tx.send(&PORT, k))?;
    }
    Ok(())
}

fn life<M: Model, const BITS: u8>(nv: Region<'_, M>, world: &World<'_, WorldState>)
where
    M::Unit: Width,
{
    let mut sink = Sink(world);
    let options = Options {
        table: Config {
            bytes: 168,
            outbox_bytes: 8,
            seq_bits: BITS,
        },
        pool: Some(pmem_tx::Config::SMALL),
        outlet: Some(&mut sink),
        ..Options::default()
    };
    let mut rt = Rt::<M>::open(nv, options, |_| Ok([0; 2])).unwrap();
    let e = rt.forever(iteration::<M>);
    panic!("the super-loop has ended: {e:?}");
}

fn long<M: Model, const BITS: u8>()
where
    M::Unit: Width,
{
    // The first boot formats the pool and the table: it needs lives of at least 230 events.
    for every in [157, 233, 433]
        .into_iter()
        .take(if cfg!(miri) { 1 } else { 3 })
    {
        let boots = if cfg!(miri) { 6 } else { 1000 };
        let s = endure(
            Mapped::<M>::new(1024),
            EveryEvents(every),
            life::<M, BITS>,
            |outside| outside.next,
        )
        .boots(boots)
        .run();
        assert!(s.partial || s.cuts >= boots, "{s}");
    }
}

#[test]
fn in_order_16() {
    long::<InOrder16, 4>();
    long::<InOrder16, 8>();
}
#[test]
fn in_order_32() {
    long::<InOrder32, 4>();
    long::<InOrder32, 6>();
}
#[test]
fn buffered_32() {
    long::<Buffered32, 5>();
    long::<Buffered32, 16>();
}
