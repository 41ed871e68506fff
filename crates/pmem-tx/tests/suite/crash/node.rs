//! A list of persistent objects, for the programs of several tests.

use nvmem::{Model, Persist};
use pmem_tx::{PBox, Tx, Width};

#[derive(Persist)]
#[repr(C)]
pub struct Node<'p, W: Width> {
    pub v: u32,
    pub next: List<'p, W>,
}

pub type List<'p, W> = Option<PBox<'p, Node<'p, W>, W>>;

/// The values in the list, in order.
pub fn values<'p, M: Model>(list: &List<'p, M::Unit>, tx: &Tx<'p, M>) -> Vec<u32>
where
    M::Unit: Width,
{
    let mut all = Vec::new();
    let mut at = list;
    while let Some(n) = at {
        all.push(n.get(tx).v);
        at = &n.get(tx).next;
    }
    all
}
