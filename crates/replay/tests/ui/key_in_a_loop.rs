//! A key is given to every iteration of a loop: the lock would be held for all of them, and the
//! next boot would have another one.
use nv_replay::nvmem::Region;
use nv_replay::pmem_tx::{Contexts, Sharing};
use nv_replay::{Config, Options, Threads};

type Two = Sharing<(u32,), Contexts<(u32, u32)>>;

fn main() {
    let region = Region::new(&mut []);
    let mut all = Threads::<Two>::open(region, Config::SMALL, None, |_| Ok(((0,), (0, 0)))).unwrap();
    let ((one, _), (mut key,)) = all.share().unwrap();
    let mut one = one.open(Options::default()).unwrap();
    let _ = one.each_with(0..3, &mut key, |_, _, _| Ok(()));
}
