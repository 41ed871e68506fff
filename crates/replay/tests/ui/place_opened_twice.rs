//! Two threads in one place: they would have the same table.
use nv_replay::nvmem::Region;
use nv_replay::pmem_tx::{Contexts, Sharing};
use nv_replay::{Config, Options, Threads};

type Two = Sharing<(u32,), Contexts<(u32, u32)>>;

fn main() {
    let region = Region::new(&mut []);
    let mut all = Threads::<Two>::open(region, Config::SMALL, None, |_| Ok(((0,), (0, 0)))).unwrap();
    let ((one, _), _) = all.share().unwrap();
    let first = one.open(Options::default());
    let second = one.open(Options::default());
    drop((first, second));
}
