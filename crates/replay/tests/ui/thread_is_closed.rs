//! One of several threads closes its runtime: the region belongs to all of them.
use nv_replay::nvmem::Region;
use nv_replay::pmem_tx::{Contexts, Sharing};
use nv_replay::{Config, Options, Threads};

type Two = Sharing<(u32,), Contexts<(u32, u32)>>;

fn main() {
    let region = Region::new(&mut []);
    let mut all = Threads::<Two>::open(region, Config::SMALL, None, |_| Ok(((0,), (0, 0)))).unwrap();
    let ((one, _), _) = all.share().unwrap();
    let one = one.open(Options::default()).unwrap();
    let _ = one.close();
}
