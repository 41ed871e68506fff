//! What the campaigns of threads share: media, critical sections, a lock, counts.

use nv_replay::nvmem::Model;
use nv_replay::pmem_tx::{Preempted, Section};
use powerfail::{Summary, masked};
use std::cell::{RefCell, RefMut};

/// A 16-bit core behind a write buffer.
pub enum Buffered16 {}
// SAFETY: the fence is the kit's, and nothing else.
unsafe impl Model for Buffered16 {
    type Unit = u16;
    const BUFFERED: bool = true;
    const NAME: &'static str = "buffered-16";
}

pub enum Masked {}
// SAFETY: the kit preempts nothing inside of `masked`, and there is one thread of the host.
unsafe impl Section for Masked {
    fn with<R>(f: impl FnOnce() -> R) -> R {
        masked(f)
    }
}
pub type On<M> = Preempted<M, Masked>;

/// The lock of a shared root: who finds it taken lets the others run.
pub struct Lock<K>(RefCell<K>);
impl<K> Lock<K> {
    pub fn new(key: K) -> Self {
        Lock(RefCell::new(key))
    }
    pub fn lock(&self, wait: &dyn Fn()) -> RefMut<'_, K> {
        loop {
            match self.0.try_borrow_mut() {
                Ok(key) => return key,
                Err(_) => wait(),
            }
        }
    }
}

/// Prints the sums of these campaigns, which have made at least so many cuts.
pub fn told(name: &str, least: u64, all: &[Summary]) {
    let s = all.iter().fold(Summary::default(), |sum, s| sum + *s);
    println!("{s}");
    println!("tables.{name}.cuts {}", s.cuts);
    println!("tables.{name}.points {}", s.points);
    assert!(s.partial || s.cuts > least, "{s}");
}
