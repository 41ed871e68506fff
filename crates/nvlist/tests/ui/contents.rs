//! Types that cannot be a node's content.

use nvlist::NodePool;
use nvlist::nvmem::{InOrder32, Region};

fn volatile(region: Region<'_, InOrder32>) {
    let _ = NodePool::<&'static str, 1>::open(region);
}

fn main() {}
