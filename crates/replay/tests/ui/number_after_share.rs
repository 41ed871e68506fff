//! A thread's last number is used when its place is out.
use nv_replay::nvmem::Region;
use nv_replay::pmem_tx::{Contexts, Sharing};
use nv_replay::{Config, Options, Threads};

type Two = Sharing<(u32,), Contexts<(u32, u32)>>;

fn main() {
    let region = Region::new(&mut []);
    let mut all = Threads::<Two>::open(region, Config::SMALL, None, |_| Ok(((0,), (0, 0)))).unwrap();
    let number = all.last_committed(0).unwrap();
    let ((one, _), _) = all.share().unwrap();
    let mut one = one.open(Options::default()).unwrap();
    one.step((), |_, _, ()| Ok(())).unwrap();
    assert_eq!(number.get(), 0);
}
