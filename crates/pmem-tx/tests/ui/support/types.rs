// The types of the compile-fail tests.

#[allow(unused_imports)]
use pmem_tx::nvmem::{self, InOrder32, Persist, Region};
#[allow(unused_imports)]
use pmem_tx::*;

#[allow(dead_code)]
#[derive(Persist)]
#[repr(C)]
pub struct Node<'p> {
    v: u32,
    next: Option<PBox<'p, Node<'p>>>,
}
#[allow(dead_code)]
#[derive(Persist)]
#[repr(C)]
pub struct Top<'p> {
    n: u32,
    last: [u32; 4],
    child: Option<PBox<'p, Node<'p>>>,
    other: Option<PBox<'p, Node<'p>>>,
    cell: Option<Ptr<'p, u32>>,
}
#[allow(dead_code)]
type Store<'m> = Pool<'m, Top<'static>>;
#[allow(dead_code)]
type N = Node<'static>;
