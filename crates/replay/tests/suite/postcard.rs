//! Results and inputs encoded by postcard.
#![cfg(feature = "postcard")]

use nv_replay::nvmem::{self, Buffered32, InOrder16, InOrder32, Model, Region};
use nv_replay::pmem_tx::{Config, Width};
use nv_replay::{Error, Message, NotNow, Options, Outlet, Port, Postcard, Replay};
use powerfail::{Mapped, World, explore};
use serde::{Deserialize, Serialize};
use std::mem::MaybeUninit;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Packet {
    Reading(Option<i16>, Vec<u8>),
    Text(String),
}

fn program<M: Model>(rt: &mut Replay<'_, u32, M>, long: bool) -> Result<(Packet, Packet), Error>
where
    M::Unit: Width,
{
    let a = rt.step((), |tx, n, ()| {
        *n.get_mut(tx)? += 1;
        Ok(Postcard(Packet::Reading(
            Some(-300),
            vec![*n.get(tx) as u8; 5],
        )))
    })?;
    let b =
        rt.record_with(|| Postcard(Packet::Text("hello".repeat(if long { 100 } else { 2 }))))?;
    Ok((a.0, b.0))
}

fn survives<M: Model>()
where
    M::Unit: Width,
{
    let mut m = vec![MaybeUninit::new(0u64); 256];
    let mut region = Region::<M>::new(&mut m);
    let want = (
        Packet::Reading(Some(-300), vec![1; 5]),
        Packet::Text("hellohello".into()),
    );
    for _ in 0..3 {
        let mut rt = Replay::<u32, M>::open(region, Options::default(), |_| Ok(0)).unwrap();
        assert_eq!(program(&mut rt, false), Ok(want.clone()));
        region = rt.close();
    }
    let options = Options {
        start_over: true,
        ..Options::default()
    };
    let mut rt = Replay::<u32, M>::open(region, options, |_| Ok(0)).unwrap();
    let e = program(&mut rt, true).unwrap_err();
    assert_eq!(e, Error::TableFull);
}

#[test]
fn results_and_inputs() {
    survives::<InOrder16>();
    survives::<InOrder32>();
}

/// Two types that encode to the same bytes are told apart by their names.
#[test]
fn another_type_is_found() {
    #[derive(Serialize, Deserialize)]
    struct Metres(u32);
    #[derive(Serialize, Deserialize)]
    struct Seconds(u32);
    let mut m = vec![MaybeUninit::new(0u64); 256];
    let options = Options::default;
    let region = Region::<InOrder32>::new(&mut m);
    let mut rt = Replay::<u32>::open(region, options(), |_| Ok(0)).unwrap();
    rt.record(Postcard(Metres(5))).unwrap();
    let mut rt = Replay::<u32>::open(rt.close(), options(), |_| Ok(0)).unwrap();
    assert_eq!(rt.record(Postcard(Metres(6))).unwrap().0.0, 5);
    let mut rt = Replay::<u32>::open(rt.close(), options(), |_| Ok(0)).unwrap();
    let refused = rt.record(Postcard(Seconds(5))).map(|s| s.0.0);
    assert_eq!(refused, Err(Error::Diverged));
}

/// A type without a stable layout, as a message.
#[derive(Debug, Clone, PartialEq, Hash, Serialize, Deserialize)]
enum Frame {
    Silence,
    Samples(Option<u8>, Vec<i32>),
}
type Encoded = nvmem::Postcard<Frame, 24>;
static FRAMES: Port<Encoded> = Port::new(1);

fn frame(i: u32) -> Frame {
    match i {
        1 => Frame::Silence,
        _ => Frame::Samples((i > 0).then_some(7), vec![-70_000; i as usize]),
    }
}

/// A receiver that drops what is sent again.
struct Receiver<'a, 'r>(&'a World<'r, Vec<Frame>>);
impl Outlet for Receiver<'_, '_> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let encoded = m.get(&FRAMES).expect("the port").expect("a sound length");
        let frame = encoded.get().expect("what was sent");
        let known = self.0.with(|w| w.get(m.number as usize).cloned());
        match known {
            Some(known) => assert_eq!(known, frame, "another message {}", m.number),
            None => self.0.update(|w| w.push(frame)),
        }
        Ok(())
    }
}

fn sends<M: Model>(nv: Region<'_, M>, world: &World<'_, Vec<Frame>>)
where
    M::Unit: Width,
{
    let options = Options {
        pool: Some(Config::SMALL),
        ..Options::default()
    };
    let mut rt = Replay::<u32, M, _>::open_with(nv, options, Receiver(world), |_| Ok(0)).unwrap();
    for i in 0..4 {
        rt.step(i, |tx, n, i| {
            *n.get_mut(tx)? += 1;
            let encoded = Encoded::new(&frame(i)).map_err(|_| tx.abort(1))?;
            tx.send(&FRAMES, encoded)
        })
        .unwrap();
    }
    // Eight samples take more than 24 bytes.
    let too_long = rt.step((), |tx, n, ()| {
        *n.get_mut(tx)? += 1;
        let encoded = Encoded::new(&frame(8)).map_err(|_| tx.abort(2))?;
        tx.send(&FRAMES, encoded)
    });
    assert_eq!(too_long.map_err(Error::from), Err(Error::Aborted(2)));
    assert_eq!(rt.step((), |tx, n, ()| Ok(*n.get(tx))).unwrap(), 4);
    assert_eq!(world.get(), [0, 1, 2, 3].map(frame));
}

/// Encoded messages arrive whole and in order, wherever the power is cut.
#[test]
fn messages() {
    fn cut<M: Model>()
    where
        M::Unit: Width,
    {
        let s = explore(Mapped::<M>::new(4096), |nv, world: &World<'_, _>| {
            sends(nv, world)
        })
        .world(Vec::new())
        .depth(1)
        .run();
        assert!(s.cuts > 300, "{s}");
    }
    cut::<InOrder16>();
    cut::<InOrder32>();
    cut::<Buffered32>();
}
