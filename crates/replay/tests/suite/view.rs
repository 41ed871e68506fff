//! `Replay::view`: reads objects between steps, stores nothing, and returns `None` during a replay.

use nv_replay::nvmem::instrument::{Observer, observe};
use nv_replay::nvmem::{InOrder32, Persist, Region};
use nv_replay::{Error, Held, Options, PBox, Replay};
use std::cell::Cell;
use std::mem::MaybeUninit;

#[derive(Persist)]
#[repr(C)]
struct Top {
    n: u32,
}
type Rt<'m> = Replay<'m, Top>;

#[derive(Default)]
struct Stores(Cell<usize>);
impl Observer for Stores {
    fn store(&self, _: *mut u8, _: &[u8]) {
        self.0.set(self.0.get() + 1);
    }
}

fn open(region: Region<'_, InOrder32>) -> Rt<'_> {
    Replay::open(region, Options::default(), |_| Ok(Top { n: 0 })).unwrap()
}

/// The values read before the first step, between the two, and after them.
fn program(rt: &mut Rt<'_>) -> Result<[Option<u32>; 3], Error> {
    let n = |rt: &mut Rt<'_>| rt.view(|tx, top| top.get(tx).n);
    let before = n(rt)?;
    let held = rt.step_own::<_, Held<u32>>((), |tx, top, ()| {
        top.get_mut(tx)?.n = 1;
        PBox::new(tx, 5u32)
    })?;
    let between = n(rt)?;
    rt.step(held, |tx, top, b| {
        top.get_mut(tx)?.n += b.into_inner(tx)?;
        Ok(())
    })?;
    Ok([before, between, n(rt)?])
}

#[test]
fn only_where_the_program_is() {
    let mut memory = vec![MaybeUninit::new(0); 512];
    let mut rt = open(Region::new(&mut memory));
    assert_eq!(program(&mut rt), Ok([Some(0), Some(1), Some(6)]));
    // During the replay the objects are ahead of the program. Reading them there would also end the
    // time in which recorded handles can be adopted.
    let mut rt = open(rt.close());
    assert_eq!(program(&mut rt), Ok([None, None, Some(6)]));
}

#[test]
fn nothing_is_stored() {
    let mut memory = vec![MaybeUninit::new(0); 512];
    let mut rt = open(Region::new(&mut memory));
    program(&mut rt).unwrap();
    let stores = Stores::default();
    let seen = observe(&stores, || rt.view(|tx, top| top.get(tx).n));
    assert_eq!((seen, stores.0.get()), (Ok(Some(6)), 0));
    // An allocation in `view` is undone.
    rt.view(|tx, _| PBox::new(tx, 9u32).map(|_| ()).unwrap())
        .unwrap();
    let mut rt = open(rt.close());
    assert_eq!(program(&mut rt), Ok([None, None, Some(6)]));
    rt.step((), |tx, top, ()| {
        top.get_mut(tx)?.n += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!(rt.view(|tx, top| top.get(tx).n), Ok(Some(7)));
}
