//! A thread starts over, and another thread is the last one that replays. It frees the objects that
//! the first one has given up. They must still be there while the old records can come back: a cut
//! may be followed by a boot of the old program.

use super::kit::{Buffered16, On, told};
use nv_replay::nvmem::{Buffered32, InOrder32, Model, Region};
use nv_replay::pmem_tx::{self, Contexts, Sharing, Width};
use nv_replay::{Config, Error, Held, OpenError, Options, PBox, Thread, Threads, Update};
use powerfail::{Mapped, Summary, World, explore};

type Roots = Sharing<(u32,), Contexts<(u32, u32)>>;
type One<'c, M> = Thread<'c, u32, M>;
type Object<M> = Held<u32, <M as Model>::Unit>;

fn open<M: Model>(region: Region<'_, M>) -> Threads<'_, Roots, M>
where
    M::Unit: Width,
{
    let table = Config {
        bytes: 48,
        outbox_bytes: 0,
        seq_bits: 5,
    };
    let pool = pmem_tx::Config {
        journal_entries: 4,
        journal_bytes: 32,
        seq_bits: 5,
    };
    let all = Threads::open(region, table, Some(pool), |_| Ok(((0,), (0, 0))));
    all.unwrap_or_else(|r| panic!("open: {r}"))
}

fn version<'m>(version: u16, update: Update) -> Options<'m> {
    Options {
        version,
        update,
        ..Options::default()
    }
}

/// The first thread of the old program: its record has a handle.
fn makes<M: Model>(rt: &mut One<'_, M>) -> Result<u32, Error>
where
    M::Unit: Width,
{
    let mut made = rt.step_own::<_, Object<M>>((), |tx, _, ()| PBox::new(tx, 5))?;
    let read = rt.step(made.lend(), |tx, _, made| Ok(*made.get(tx)));
    read.map_err(|failed| failed.error)
}

/// The second thread, in both programs.
fn counts<M: Model>(rt: &mut One<'_, M>)
where
    M::Unit: Width,
{
    let counted = rt.step((), |tx, n, ()| {
        *n.get_mut(tx)? += 1;
        Ok(*n.get(tx))
    });
    assert_eq!(counted.map_err(Error::from), Ok(1));
}

/// How far the device is.
#[derive(Clone, Copy, Hash, Debug, Default, PartialEq)]
enum Stage {
    #[default]
    Old,
    /// The new program was begun. After a cut the old one is there again.
    Updated,
}

fn program<M: Model>(nv: Region<'_, M>, world: &World<'_, Stage>)
where
    M::Unit: Width,
{
    let first = world.get() == Stage::Old;
    let mut all = open(nv);
    let old = {
        let ((one, two), _) = all.share().unwrap();
        let old = match one.open(version(1, Update::Refuse)) {
            Ok(mut one) => {
                assert_eq!(makes(&mut one), Ok(5));
                true
            }
            Err(OpenError::OtherVersion { .. }) if !first => false,
            Err(e) => panic!("{e}"),
        };
        counts(&mut two.open(version(1, Update::Refuse)).unwrap());
        old
    };
    let audit = all.audit().unwrap();
    // An object that was given up is freed when all threads are live.
    if old {
        assert_eq!(audit.blocks, 4, "{audit:?}");
    }
    if !first {
        return;
    }
    world.set(Stage::Updated);
    let mut all = open(all.close());
    {
        let ((one, two), _) = all.share().unwrap();
        let mut one = one.open(version(2, Update::StartOver)).unwrap();
        assert!(one.is_live());
        counts(&mut two.open(version(1, Update::Refuse)).unwrap());
        one.step((), |_, _, ()| Ok(())).unwrap();
    }
    assert_eq!(all.audit().unwrap().unreachable, 0);
}

fn campaign<M: Model>() -> Summary
where
    M::Unit: Width,
{
    explore(Mapped::<M>::new(768), |nv, w| program::<M>(nv, w))
        .name(&format!("kept {}", M::NAME))
        .depth(1)
        .run()
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of boots")]
fn an_object_lives_as_long_as_its_record() {
    let all = [
        campaign::<On<InOrder32>>(),
        campaign::<On<Buffered32>>(),
        campaign::<On<Buffered16>>(),
    ];
    told("kept", 300, &all);
}
