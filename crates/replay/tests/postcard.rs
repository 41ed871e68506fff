//! Results and inputs encoded by postcard.
#![cfg(feature = "postcard")]

use nv_replay::nvmem::{InOrder16, InOrder32, Model, Region};
use nv_replay::pmem_tx::Width;
use nv_replay::{Error, Options, Postcard, Replay};
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
