//! Getters and setters of `#[derive(Fields)]`. The generated code violates no lint that a user may
//! forbid.

use nvmem::ram::RamFram;
use nvmem::{Maybe, Medium, Plain};
use std::fmt::Debug;
use vnv_heap::{Config, Error, Heap, JustInTime, Marked, Own, Promise, Snapshot, brand};

#[forbid(
    unsafe_code,
    missing_docs,
    unused,
    nonstandard_style,
    rust_2018_idioms,
    elided_lifetimes_in_paths,
    missing_copy_implementations,
    single_use_lifetimes,
    trivial_casts,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unused_lifetimes,
    unused_qualifications
)]
#[forbid(
    clippy::undocumented_unsafe_blocks,
    clippy::missing_inline_in_public_items
)]
mod model {
    use vnv_heap::nvmem::{Maybe, Persist};
    use vnv_heap::{Fields, Own};

    /// Fields of each kind, and names that the language or a handle has a use for.
    #[derive(Persist, Fields)]
    #[repr(C)]
    pub(crate) struct Node<'h> {
        /// What is measured.
        pub(crate) temperature: i16,
        pub(super) r#type: u8,
        pub(crate) id: u32,
        pub(crate) number: Maybe<u8>,
        pub(crate) next: Option<Own<'h, Self>>,
        pub(crate) samples: [u16; 4],
        hidden: bool,
    }

    impl<'h> Node<'h> {
        pub(crate) const fn new(id: u32) -> Self {
            Node {
                temperature: 20,
                r#type: 1,
                id,
                number: Maybe::None,
                next: None,
                samples: [0; 4],
                hidden: false,
            }
        }
        /// A private field has private methods.
        pub(crate) fn hide<R, S: nvmem::Medium>(
            own: &Own<'h, Self>,
            heap: &vnv_heap::Heap<'h, R, S, vnv_heap::JustInTime>,
        ) -> Result<bool, vnv_heap::Error<S::Error>> {
            let was = own.hidden(heap)?;
            own.set_hidden(heap, true)?;
            Ok(was)
        }
    }

    /// With type parameters; most methods are not called.
    #[derive(Persist, Fields)]
    #[repr(C)]
    pub(crate) struct Series<T, const N: usize = 2>
    where
        T: Persist,
    {
        pub(crate) all: [T; N],
        pub(crate) len: u16,
    }

    /// Another name.
    #[derive(Persist, Fields)]
    #[fields(name = OwnerHandle, crate = vnv_heap)]
    #[repr(transparent)]
    pub(crate) struct Owner<'h> {
        pub(crate) series: Own<'h, Series<Option<Own<'h, Node<'h>>>>>,
    }
}
use model::{Node, Owner, Series};

const CONFIG: Config = Config {
    dirty_limit: 256,
    ..Config::DEFAULT
};

type Fram = RamFram<4096>;
type TestHeap<'a, 'h, P> = Heap<'h, Node<'h>, &'a mut Fram, P>;

/// All accesses by methods only, with more objects than fit into RAM.
fn lives<P: Promise>(save: impl Fn(&mut TestHeap<'_, '_, P>)) {
    let mut fram = Fram::filled(0);
    for boot in 0..3u8 {
        let mut ram = [0; 256];
        brand!(b);
        let init = |_: &_| Ok(Node::new(0));
        let mut heap = TestHeap::<P>::open(b, &mut fram, &mut ram, CONFIG, init)
            .unwrap_or_else(|e| panic!("{e}"));
        let root = heap.root_handle();
        assert_eq!(root.id(&heap), Ok(u32::from(boot)));
        assert_eq!(root.r#type(&heap), Ok(boot + 1));
        root.set_id(&heap, u32::from(boot) + 1).unwrap();
        root.set_type(&heap, boot + 2).unwrap();
        root.set_number(&heap, Maybe::Some(boot)).unwrap();
        assert_eq!(root.number(&heap), Ok(Maybe::Some(boot)));
        let node = heap.alloc(Node::new(7)).unwrap();
        assert_eq!(Own::number(heap.root_handle()), 1);
        node.set_samples(&heap, [u16::from(boot); 4]).unwrap();
        // What is owned comes back; in a list it goes behind the new one.
        let before = root.replace_next(&heap, None).unwrap();
        assert_eq!(before.is_some(), boot > 0);
        let none = node.update_next(&heap, |next| core::mem::replace(next, before));
        assert!(none.unwrap().is_none());
        assert!(root.replace_next(&heap, Some(node)).unwrap().is_none());
        save(&mut heap);
        let root = heap.root_handle();
        let mut seen = Vec::new();
        let more = root.with_next(&heap, |next| {
            let first = next.as_ref().unwrap();
            seen.push(first.samples(&heap).unwrap()[3]);
            first.with_next(&heap, |n| n.as_ref().map(|n| n.samples(&heap).unwrap()[0]))
        });
        seen.extend(more.unwrap().unwrap());
        assert_eq!(seen[0], u16::from(boot));
        assert_eq!(seen.get(1).copied(), boot.checked_sub(1).map(u16::from));
        let audit = heap.audit().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(
            (audit.reachable, audit.allocated),
            (u16::from(boot) + 2, u16::from(boot) + 2)
        );
    }
}

#[test]
fn just_in_time() {
    lives::<JustInTime>(|heap| {
        heap.persist().unwrap();
        heap.restore().unwrap();
    });
}

#[test]
fn snapshot() {
    lives::<Snapshot>(|heap| heap.commit().unwrap());
}

/// No pin remains after a call, and a method does not overwrite an object that a guard pins.
#[test]
fn methods_of_fields_pin_as_guards_do() {
    let mut fram = Fram::filled(0);
    let mut ram = [0; 256];
    brand!(b);
    let init = |_: &_| Ok(Node::new(0));
    let heap = TestHeap::<JustInTime>::open(b, &mut fram, &mut ram, CONFIG, init).unwrap();
    let node = heap.alloc(Node::new(1)).unwrap();
    assert_eq!(Node::hide(&node, &heap), Ok(false));
    assert_eq!(Node::hide(&node, &heap), Ok(true));
    let held = heap.get(&node).unwrap();
    assert_eq!(node.temperature(&heap), Ok(20), "both read");
    assert_eq!(node.set_temperature(&heap, 21), Err(Error::Busy));
    let child = heap.alloc(Node::new(2)).unwrap();
    let refused = node.replace_next(&heap, Some(child)).unwrap_err();
    assert_eq!(refused.error, Error::Busy);
    drop(held);
    assert!(node.replace_next(&heap, refused.value).unwrap().is_none());
    let held = heap.get_mut(&node).unwrap();
    assert_eq!(node.temperature(&heap), Err(Error::Busy));
    drop(held);
    heap.free(node).unwrap();
}

fn sum<'h, R, S: Medium<Error: Debug>, T: Plain + Marked<()> + Into<u64>>(
    own: &Own<'h, Series<T, 3>>,
    heap: &Heap<'h, R, S, JustInTime>,
) -> u64 {
    own.all(heap).unwrap().into_iter().map(Into::into).sum()
}

/// The type argument decides which methods exist.
#[test]
fn of_generic_structs() {
    let mut fram = Fram::filled(0);
    let mut ram = [0; 256];
    brand!(b);
    let init = |_: &_| Ok(Node::new(0));
    let mut heap = TestHeap::<JustInTime>::open(b, &mut fram, &mut ram, CONFIG, init).unwrap();
    let plain = heap
        .alloc(Series {
            all: [1u32, 2, 3],
            len: 3,
        })
        .unwrap();
    plain.set_all(&heap, [4, 5, 6]).unwrap();
    assert_eq!(sum(&plain, &heap), 15);
    assert_eq!(plain.replace_all(&heap, [7; 3]).unwrap(), [4, 5, 6]);
    assert_eq!(plain.len(&heap), Ok(3));
    heap.free(plain).unwrap();
    let series = heap
        .alloc(Series {
            all: [None, None],
            len: 0,
        })
        .unwrap();
    let owner = heap.alloc(Owner { series }).unwrap();
    let node = heap.alloc(Node::new(9)).unwrap();
    let put = owner.with_series(&heap, |s| {
        s.set_len(&heap, 1).unwrap();
        s.update_all(&heap, |all| all[1].replace(node)).unwrap()
    });
    assert!(put.unwrap().is_none());
    let id = owner.with_series(&heap, |s| {
        s.with_all(&heap, |all| all[1].as_ref().unwrap().id(&heap))
            .unwrap()
    });
    assert_eq!(id.unwrap(), Ok(9));
    assert_eq!(heap.audit().unwrap().allocated, 4);
    heap.free(owner).unwrap();
    assert_eq!(heap.audit().unwrap().allocated, 1);
}
