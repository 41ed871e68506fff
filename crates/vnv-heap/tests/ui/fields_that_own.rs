//! A field that owns an object has no setter, which would lose the object. A private field has no
//! public methods.
#![allow(dead_code, unused)]

include!("support/types.rs");

mod model {
    use super::*;
    use vnv_heap::Fields;

    #[derive(Fields, Persist)]
    #[repr(C)]
    pub struct Item<'h> {
        pub child: Option<Own<'h, [u8; 8]>>,
        pub rate: u8,
        hidden: u8,
    }

    pub fn item<'h>() -> Item<'h> {
        Item { child: None, rate: 1, hidden: 2 }
    }
}

fn main() {
    let mut ram = [0; 1024];
    brand!(b);
    let heap = TestHeap::<JustInTime>::open(b, fram(), &mut ram, Config::DEFAULT, root).unwrap();
    let item = heap.alloc(model::item()).unwrap();
    item.set_child(&heap, None);
    item.child(&heap);
    item.hidden(&heap);
}
