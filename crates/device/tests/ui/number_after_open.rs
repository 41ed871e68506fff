// Contexts are opened with a number that is out of date.
use nv_device::nv_replay::{Config, Options, Replay, last_committed};
use nv_device::nvmem::{InOrder32, Region};
use nv_device::{Committed, Staged, open};

fn main() {}

fn boot(contexts: Region<'_, InOrder32>, rest: Region<'_, InOrder32>) {
    let committed = Committed::of(last_committed(&rest).unwrap(), &Config::DEFAULT);
    let _ = Replay::<u32>::open(rest, Options::default(), |_| Ok(0));
    let _ = open::<(Staged<u8>,), _>(contexts, committed, (0,));
}
