//! An environment says where messages go, even if that is nowhere.

use nv_replay::nvmem::{InOrder32, Region};
use nv_replay::{Options, Replay};

struct Devices {
    sensor: u32,
}

fn boot(region: Region<'_, InOrder32>) {
    let devices = Devices { sensor: 1 };
    let _ = Replay::<u32, _, _>::open_with(region, Options::default(), devices, |_| Ok(0));
}

type Runtime<'m> = Replay<'m, u32, InOrder32, Devices>;

fn boot_named(region: Region<'_, InOrder32>) {
    let devices = Devices { sensor: 1 };
    let _ = Runtime::open_with(region, Options::default(), devices, |_| Ok(0));
}
fn main() {}
