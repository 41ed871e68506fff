//! The last number of one opening is used after the next one.
use nv_replay::nvmem::{InOrder32, Region};
use nv_replay::{Options, Replay, last_committed};

fn main() {
    let region = Region::<InOrder32>::new(&mut []);
    let number = last_committed(&region).unwrap();
    let mut rt = Replay::<u32>::open(region, Options::default(), |_| Ok(0)).ok().unwrap();
    rt.step((), |_, _, ()| Ok(())).unwrap();
    let region = rt.close();
    assert_eq!(number, last_committed(&region).unwrap());
}
