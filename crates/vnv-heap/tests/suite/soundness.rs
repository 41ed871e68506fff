//! Misuses that compile and must be harmless. Run under Miri, which reports undefined behaviour.

use critical_section as _;
use nvmem::ram::RamFram;
use nvmem::{Maybe, Persist};
use vnv_heap::{
    Config, Error, Heap, JustInTime, OpenError, Own, Saver, Snapshot, brand, instrument,
};

type Fram = RamFram<4096>;
const CONFIG: Config = Config {
    objects: 16,
    ..Config::DEFAULT
};

/// With a gap between the fields.
#[derive(Persist, Debug, Clone, Copy, PartialEq)]
#[repr(C)]
struct Padded {
    small: u8,
    large: u32,
}

const VALUE: Padded = Padded { small: 1, large: 2 };

/// A value with uninitialised padding: an assignment copies that.
fn value(large: u32) -> Padded {
    let mut place = core::mem::MaybeUninit::<Padded>::uninit();
    // SAFETY: all fields are written.
    unsafe {
        (&raw mut (*place.as_mut_ptr()).small).write(1);
        (&raw mut (*place.as_mut_ptr()).large).write(large);
        place.assume_init()
    }
}

/// A leaked guard may leave uninitialised padding, which a persist would have to read.
#[test]
fn leaked_padding_is_not_persisted() {
    let (mut fram, mut ram) = (Fram::filled(0), [0; 512]);
    brand!(b);
    let mut heap =
        Heap::<u32, _, JustInTime>::open(b, &mut fram, &mut ram, CONFIG, |_| Ok(7)).unwrap();
    let own = heap.alloc(VALUE).unwrap();
    // One that ends leaves nothing behind.
    *heap.get_mut(&own).unwrap() = value(3);
    heap.persist().unwrap();
    heap.restore().unwrap();
    assert_eq!(heap.read(&own).unwrap(), value(3));
    let mut held = heap.get_mut(&own).unwrap();
    *held = value(4);
    core::mem::forget(held);
    assert_eq!(heap.persist(), Err(Error::Busy));
    assert!(matches!(heap.audit(), Err(OpenError::Failed(Error::Busy))));
    assert_eq!(heap.get(&own).err(), Some(Error::Busy));
}

#[test]
fn leaked_padding_is_not_committed() {
    let (mut fram, mut ram) = (Fram::filled(0), [0; 512]);
    {
        brand!(b);
        let mut heap =
            Heap::<Maybe<u16>, _, Snapshot>::open(b, &mut fram, &mut ram, CONFIG, |_| {
                Ok(Maybe::Some(7))
            })
            .unwrap();
        *heap.root_mut().unwrap() = Maybe::Some(8);
        heap.commit().unwrap();
        let mut held = heap.root_mut().unwrap();
        *held = Maybe::None;
        core::mem::forget(held);
        assert_eq!(heap.commit(), Err(Error::Busy));
    }
    brand!(b);
    let heap =
        Heap::<Maybe<u16>, _, Snapshot>::open(b, &mut fram, &mut ram, CONFIG, |_| Ok(Maybe::None));
    assert_eq!(*heap.unwrap().root().unwrap(), Maybe::Some(8));
}

/// More guards at once than a byte counts.
#[test]
fn leaked_padding_among_many() {
    const MANY: usize = if cfg!(miri) { 3 } else { 300 };
    let (mut fram, mut ram) = (RamFram::<32_768>::filled(0), [0; 16_384]);
    let config = Config {
        objects: 400,
        dirty_limit: 1 << 14,
        ..CONFIG
    };
    brand!(b);
    let mut heap = Heap::<u32, _, Snapshot>::open(b, &mut fram, &mut ram, config, |_| Ok(7));
    let heap = heap.as_mut().unwrap();
    let all: Vec<_> = (0..MANY).map(|_| heap.alloc(VALUE).unwrap()).collect();
    for leaks in [false, true] {
        let mut held: Vec<_> = all.iter().map(|own| heap.get_mut(own).unwrap()).collect();
        if leaks {
            core::mem::forget(held.pop());
        }
        drop(held);
        assert_eq!(heap.commit(), if leaks { Err(Error::Busy) } else { Ok(()) });
    }
}

/// `init` may leak, too.
#[test]
fn leaked_padding_is_not_formatted() {
    fn format<P: vnv_heap::Promise>() {
        let (mut fram, mut ram) = (Fram::filled(0), [0; 512]);
        brand!(b);
        let heap = Heap::<u32, _, P>::format(b, &mut fram, &mut ram, CONFIG, |heap| {
            let own = heap.alloc(VALUE)?;
            let mut held = heap.get_mut(&own)?;
            *held = value(3);
            core::mem::forget(held);
            Ok(1)
        });
        assert!(matches!(heap.err(), Some(OpenError::Failed(Error::Busy))));
    }
    format::<JustInTime>();
    format::<Snapshot>();
}

/// Used within its contract, `Saver::persist` reads no padding of an object that is pinned for
/// writing.
#[test]
fn a_save_between_two_guards() {
    static POWER_LOW: Saver = Saver::new();
    let (fram, mut ram) = (Fram::filled(0), [0; 512]);
    brand!(b);
    let heap = Heap::<u32, _, JustInTime>::open(b, fram, &mut ram, CONFIG, |_| Ok(7)).unwrap();
    let own = heap.alloc(VALUE).unwrap();
    let plain = heap.alloc([0u8; 8]).unwrap();
    heap.attach(&POWER_LOW, || {
        *heap.get_mut(&own).unwrap() = value(3);
        let mut held = heap.get_mut(&plain).unwrap();
        held[0] = 1;
        let padded = heap.get(&own).unwrap();
        // SAFETY: no reference into an object is used later but through its guard; what has padding
        // is held to be read.
        unsafe {
            POWER_LOW.persist().unwrap();
            POWER_LOW.restore().unwrap();
        }
        held[1] = 2;
        assert_eq!(*padded, value(3));
    })
    .unwrap();
    assert_eq!(heap.read(&plain).unwrap(), [1, 2, 0, 0, 0, 0, 0, 0]);
}

/// A persist stops an allocation in the middle, whose frame then has uninitialised bytes. An object
/// without a value lies there later, and all bytes of an object are written.
#[test]
fn an_object_without_a_value_lies_where_padding_was() {
    let (mut fram, mut ram, saver) = (Fram::filled(0), [0; 512], Saver::new());
    brand!(b);
    let config = Config {
        objects: 64,
        ..CONFIG
    };
    let mut heap =
        Heap::<u32, _, JustInTime>::open(b, &mut fram, &mut ram, config, |_| Ok(7)).unwrap();
    let large = [Maybe::<[u32; 7]>::None; 6];
    let mut stopped = 0;
    for section in 1.. {
        let sections = core::cell::Cell::new(0);
        let hook = || {
            sections.set(sections.get() + 1);
            if sections.get() == section {
                // SAFETY: no object is held.
                unsafe { saver.persist() }.unwrap();
            }
        };
        let allocate = || heap.alloc(large).map_err(|r| r.error);
        // SAFETY: the hook only persists.
        let done = heap.attach(&saver, || unsafe {
            instrument::interrupted(hook, allocate)
        });
        let Err(e) = done.unwrap() else { break };
        assert_eq!(e, Error::Suspended);
        stopped += 1;
        heap.restore().unwrap();
        let small = [1u32, 2].map(|n| heap.alloc(n).unwrap());
        let empty = heap.alloc([0u32; 0]).unwrap();
        heap.persist().unwrap();
        heap.restore().unwrap();
        heap.read(&empty).unwrap();
        heap.free(empty).unwrap();
        for n in small {
            heap.free(n).unwrap();
        }
    }
    assert!(stopped > 3, "{stopped}");
}

/// A closure that unwinds releases what it held, with its padding cleared.
#[test]
fn a_closure_unwinds() {
    let (mut fram, mut ram) = (Fram::filled(0), [0; 512]);
    brand!(b);
    let mut heap =
        Heap::<u32, _, JustInTime>::open(b, &mut fram, &mut ram, CONFIG, |_| Ok(7)).unwrap();
    let own = heap.alloc(VALUE).unwrap();
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        heap.update(&own, |v| {
            *v = value(3);
            panic!("in the middle")
        })
    }));
    assert!(unwound.is_err());
    heap.persist().unwrap();
    heap.restore().unwrap();
    assert_eq!(heap.read(&own).unwrap(), value(3));
}

/// `init` unwinds: nothing is formatted, and the medium is the caller's.
#[test]
fn init_unwinds() {
    let (mut fram, mut ram) = (Fram::filled(0), [0; 512]);
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        brand!(b);
        let heap = Heap::<Option<Own<'_, u32>>, _, JustInTime>::open(
            b,
            &mut fram,
            &mut ram,
            CONFIG,
            |heap| {
                let _ = heap.alloc(5u32)?;
                panic!("in the middle")
            },
        );
        heap.is_ok()
    }));
    assert!(unwound.is_err());
    brand!(b);
    let mut heap =
        Heap::<Option<Own<'_, u32>>, _, JustInTime>::open(b, &mut fram, &mut ram, CONFIG, |_| {
            Ok(None)
        })
        .unwrap();
    assert_eq!(heap.audit().unwrap().allocated, 1);
}

/// An object that `init` allocated and kept belongs to the heap like any other.
#[test]
fn init_keeps_a_handle() {
    let (mut fram, mut ram) = (Fram::filled(0xA5), [0; 512]);
    let mut kept = None;
    brand!(b);
    let heap = Heap::<u64, _, JustInTime>::format(b, &mut fram, &mut ram, CONFIG, |heap| {
        kept = Some(heap.alloc(true)?);
        Ok(u64::MAX)
    })
    .unwrap();
    let kept = kept.unwrap();
    assert!(heap.read(&kept).unwrap());
    heap.free(kept).unwrap();
    assert_eq!(*heap.root().unwrap(), u64::MAX);
}

/// RAM of any length, at any address.
#[test]
fn ram_of_any_length_and_alignment() {
    let mut ram = [0; 300];
    let step = if cfg!(miri) { 149 } else { 1 };
    for from in (0..9).step_by(if cfg!(miri) { 5 } else { 1 }) {
        for len in (0..=ram.len() - from).step_by(step) {
            let ram = &mut ram[from..][..len];
            brand!(b);
            let heap = Heap::<u64, _, JustInTime>::open(b, Fram::filled(0), ram, CONFIG, |heap| {
                let own = heap.alloc([7u32; 9])?;
                assert_eq!(heap.read(&own)?, [7; 9]);
                Ok(heap.take(own)?.map(u64::from).iter().sum())
            });
            match heap {
                Ok(heap) => assert_eq!(*heap.root().unwrap(), 63),
                Err(OpenError::RamTooSmall { .. }) => assert!(len < 64),
                Err(OpenError::Failed(Error::RamFull)) => assert!(len < 128),
                Err(e) => panic!("{e} with {len} bytes"),
            }
        }
    }
}

#[derive(Persist)]
#[repr(C)]
struct Node<'h> {
    next: Option<Own<'h, Node<'h>>>,
    value: Padded,
}

/// Closures that access again the object that they got, or its owner.
#[test]
fn closures_may_access_their_object_again() {
    let (mut fram, mut ram) = (Fram::filled(0), [0; 512]);
    brand!(b);
    let mut heap = Heap::<Option<Own<'_, Node<'_>>>, _, JustInTime>::open(
        b,
        &mut fram,
        &mut ram,
        CONFIG,
        |heap| {
            let node = |next| heap.alloc(Node { next, value: VALUE });
            Ok(Some(node(Some(node(None)?))?))
        },
    )
    .unwrap();
    let first = heap.root_mut().unwrap().take().unwrap();
    heap.update(&first, |node| {
        assert_eq!(heap.get(&first).err(), Some(Error::Busy));
        assert_eq!(heap.get_mut(&first).err(), Some(Error::Busy));
        node.value = value(9);
        let next = node.next.as_ref().unwrap();
        // What it leads to is another object.
        heap.update(next, |next| next.value = value(8)).unwrap();
    })
    .unwrap();
    // The owner goes while what it owns is held.
    let next = {
        let node = heap.get(&first).unwrap();
        heap.get(node.next.as_ref().unwrap()).unwrap()
    };
    heap.free(first).unwrap();
    assert_eq!(next.value, value(8));
    drop(next);
    let audit = heap.audit().unwrap();
    assert_eq!((audit.reachable, audit.allocated), (1, 1));
}

/// A collection's `make` comes back, fails, and unwinds.
#[test]
fn a_closure_that_makes_elements_may_use_the_heap() {
    use vnv_heap::collections::Chunked;
    let (mut fram, mut ram, mut other) = (Fram::filled(0), [0; 512], [0; 512]);
    brand!(a);
    let mut heap =
        Heap::<u32, _, JustInTime>::open(a, &mut fram, &mut ram, CONFIG, |_| Ok(1)).unwrap();
    let full = Chunked::<Option<Own<'_, u32>>, 2>::alloc(&heap, 4, |i| match i {
        3 => Err(Error::Full),
        _ => Ok([Some(heap.alloc(u32::from(i))?), None]),
    });
    assert_eq!(full.err(), Some(Error::Full));
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        Chunked::<u64, 2>::alloc(&heap, 2, |_| panic!("in the middle")).is_ok()
    }));
    assert!(unwound.is_err());
    // What was reserved for it, and what the first one's chunks owned, nothing leads to.
    assert_eq!(heap.audit().unwrap().reachable, 1);
    heap.persist().unwrap();
    heap.restore().unwrap();
    let mut fram = fram.clone();
    brand!(b);
    let mut heap =
        Heap::<u32, _, JustInTime>::open(b, &mut fram, &mut other, CONFIG, |_| Ok(1)).unwrap();
    let audit = heap.audit().unwrap();
    assert_eq!((audit.reachable, audit.allocated), (1, 1));
}

/// A task that is dropped while it holds a guard over an `await`.
#[test]
fn a_task_is_dropped() {
    use core::future::Future;
    use core::task::{Context, Poll, Waker};
    let (mut fram, mut ram) = (Fram::filled(0), [0; 512]);
    brand!(b);
    let mut heap =
        Heap::<Padded, _, JustInTime>::open(b, &mut fram, &mut ram, CONFIG, |_| Ok(VALUE)).unwrap();
    {
        let mut task = Box::pin(async {
            let mut held = heap.root_mut().unwrap();
            *held = value(5);
            core::future::pending::<()>().await;
            *held = value(6);
        });
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(task.as_mut().poll(&mut context), Poll::Pending);
        assert_eq!(heap.root().err(), Some(Error::Busy));
    }
    assert_eq!(*heap.root().unwrap(), value(5));
    heap.persist().unwrap();
}

/// Two owners are exchanged, and a structure is turned round.
#[test]
fn handles_are_swapped() {
    let (mut fram, mut ram) = (Fram::filled(0), [0; 512]);
    brand!(b);
    let mut heap = Heap::<[Option<Own<'_, [u8; 40]>>; 3], _, JustInTime>::open(
        b,
        &mut fram,
        &mut ram,
        CONFIG,
        |heap| Ok([Some(heap.alloc([1; 40])?), Some(heap.alloc([2; 40])?), None]),
    )
    .unwrap();
    let mut mine = Some(heap.alloc([3; 40]).unwrap());
    {
        let mut root = heap.root_mut().unwrap();
        let held = heap.get(root[0].as_ref().unwrap()).unwrap();
        root.reverse();
        core::mem::swap(&mut root[1], &mut mine);
        assert_eq!(*held, [1; 40]);
    }
    let seen = |i: usize| {
        let root = heap.root().unwrap();
        root[i].as_ref().map(|own| heap.read(own).unwrap()[0])
    };
    assert_eq!([seen(0), seen(1), seen(2)], [None, Some(3), Some(1)]);
    assert_eq!(heap.take(mine.unwrap()).unwrap(), [2; 40]);
    let audit = heap.audit().unwrap();
    assert_eq!((audit.reachable, audit.allocated), (3, 3));
}
