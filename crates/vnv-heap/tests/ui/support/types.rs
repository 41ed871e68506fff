use nvmem::Persist;
use nvmem::ram::RamFram;
use vnv_heap::{Config, Error, Heap, JustInTime, Own, Ref, Snapshot, Unrooted, brand};

#[derive(Persist)]
#[repr(C)]
struct Root<'h> {
    first: Option<Own<'h, Node<'h>>>,
    count: u32,
}

#[derive(Persist)]
#[repr(C)]
struct Node<'h> {
    value: u32,
    next: Option<Own<'h, Node<'h>>>,
}

type Fram = RamFram<4096>;
type Failure = Error<nvmem::device::Misuse>;
type TestHeap<'h, P = JustInTime> = Heap<'h, Root<'h>, Fram, P>;

fn fram() -> Fram {
    Fram::filled(0)
}

fn root<'h, P: vnv_heap::Promise>(_: &Heap<'h, Unrooted, Fram, P>) -> Result<Root<'h>, Failure> {
    Ok(Root {
        first: None,
        count: 0,
    })
}

fn node<'h>(value: u32) -> Node<'h> {
    Node { value, next: None }
}
