//! A persist after every section of every operation. Then the RAM buffer is lost and restored, or
//! the program boots again.

use crate::support::shared::Shared;
use nvmem::Persist;
use nvmem::device::Misuse;
use std::cell::{Cell, RefCell};
use vnv_heap::{
    Config, CostModel, Error, Heap, OpenError, Own, Saver, Unrooted, brand, instrument,
};

const RAM: usize = 1024;
const MEDIUM: usize = 8192;
const LIMIT: u32 = 512;

const CONFIG: Config = Config {
    dirty_limit: LIMIT,
    burst: 32,
    objects: 64,
    ..Config::DEFAULT
};

#[derive(Persist)]
#[repr(C)]
struct Root<'h> {
    first: Option<Own<'h, Node<'h>>>,
    table: Option<Own<'h, [u8; 300]>>,
    count: u32,
}

#[derive(Persist)]
#[repr(C)]
struct Node<'h> {
    value: u32,
    next: Option<Own<'h, Node<'h>>>,
    data: Option<Own<'h, [u8; 90]>>,
}

type TestHeap<'h> = Heap<'h, Root<'h>, Shared, vnv_heap::JustInTime>;
type Failure = Error<Misuse>;

fn root<'h>(_: &Heap<'h, Unrooted, Shared, vnv_heap::JustInTime>) -> Result<Root<'h>, Failure> {
    Ok(Root {
        first: None,
        table: None,
        count: 0,
    })
}

fn push<'h>(heap: &TestHeap<'h>, value: u32) -> Result<(), Failure> {
    let data = heap.alloc([value as u8; 90])?;
    let next = heap.root_mut()?.first.take();
    let node = heap.alloc(Node {
        value,
        next,
        data: Some(data),
    })?;
    let mut root = heap.root_mut()?;
    root.first = Some(node);
    root.count += 1;
    Ok(())
}

/// The fields of a node are consistent, whenever the power fails.
fn walk<'h>(heap: &TestHeap<'h>) -> Result<Vec<u32>, Failure> {
    let mut values = Vec::new();
    let root = heap.root()?;
    let mut at = match &root.first {
        Some(own) => Some(heap.get(own)?),
        None => None,
    };
    while let Some(node) = at {
        values.push(node.value);
        if let Some(data) = &node.data {
            assert!(heap.get(data)?.iter().all(|b| *b == node.value as u8));
        }
        at = match &node.next {
            Some(own) => Some(heap.get(own)?),
            None => None,
        };
    }
    Ok(values)
}

/// Every operation of the heap at least once, in 1 KiB of RAM for 3 KiB of objects.
fn program<'h>(heap: &TestHeap<'h>) -> Result<(), Failure> {
    for i in 0..6 {
        push(heap, i)?;
    }
    let table = heap.alloc([0xA5; 300])?;
    heap.root_mut()?.table = Some(table);
    assert_eq!(walk(heap)?, [5, 4, 3, 2, 1, 0]);
    // Held while others come and go; the pins are recorded and the content is restored in place.
    {
        let root = heap.root()?;
        let mut table = heap.get_mut(root.table.as_ref().unwrap())?;
        table[0] = 1;
        let first = root.first.as_ref().unwrap();
        let held = heap.get(first)?;
        let next = held.next.as_ref().unwrap();
        let mut value = heap.get_mut(next)?;
        value.value += 1024;
        drop(value);
        table[299] = 2;
        assert_eq!(heap.with(next, |n| n.value)?, 1028);
        heap.update(next, |n| n.value -= 1024)?;
        assert_eq!((table[0], table[1], table[299]), (1, 0xA5, 2));
    }
    // What an object owns goes with it; what is held of that goes later.
    let tail = {
        let root = heap.root()?;
        let second = heap.get(root.first.as_ref().unwrap())?;
        let mut third = heap.get_mut(second.next.as_ref().unwrap())?;
        third.next.take().unwrap()
    };
    {
        let node = heap.get(&tail)?;
        let inner = heap.get(node.next.as_ref().unwrap())?;
        drop(node);
        heap.free(tail)?;
        assert_eq!(inner.value, 2);
    }
    let spare = heap.alloc(77u64)?;
    heap.write(&spare, 78)?;
    assert_eq!(heap.replace(&spare, 79)?, 78);
    assert_eq!(heap.take(spare)?, 79);
    assert_eq!(walk(heap)?, [5, 4]);
    let table = heap.root_mut()?.table.take().unwrap();
    assert_eq!(heap.read(&table)?[299], 2);
    heap.free(table)?;
    for i in 6..8 {
        push(heap, i)?;
    }
    assert_eq!(walk(heap)?, [7, 6, 5, 4]);
    Ok(())
}

/// The same for Miri, with handles outside of objects. If `get` takes a handle in a pinned object,
/// a save may rewrite that object's bytes meanwhile. An interrupt may do that, but here the save is
/// a call, which Miri would report.
fn flat_program<'h>(heap: &TestHeap<'h>) -> Result<(), Failure> {
    let mut all = Vec::new();
    for i in 0..12u8 {
        all.push(heap.alloc([i; 90])?);
    }
    {
        let mut first = heap.get_mut(&all[0])?;
        first[0] = 100;
        let second = heap.get(&all[1])?;
        for (i, own) in (2u8..).zip(&all[2..]) {
            assert!(heap.get(own)?.iter().all(|b| *b == i));
            heap.update(own, |bytes| bytes[89] = 100)?;
        }
        first[89] = 100;
        assert_eq!((first[1], second[89]), (0, 1));
    }
    for (i, own) in (0u8..).zip(all) {
        let ends = if i == 1 { 1 } else { 100 };
        assert_eq!(heap.with(&own, |bytes| (bytes[1], bytes[89]))?, (i, ends));
        heap.free(own)?;
    }
    Ok(())
}

/// Boots from this image: objects are consistent, and none has leaked.
fn reopen(image: Vec<u8>) {
    let mut ram = vec![0x5A; RAM];
    brand!(b);
    let mut heap = TestHeap::open(b, Shared::new(image), &mut ram, CONFIG, root).unwrap();
    let values = walk(&heap).unwrap();
    assert!(
        values
            .windows(2)
            .all(|w| w[0] > w[1] || w[0] >= 1024 || w[1] >= 1024)
    );
    let audit = heap.audit().unwrap();
    assert_eq!(audit.reachable, audit.allocated);
    // And it works.
    push(&heap, 99).unwrap();
    assert_eq!(walk(&heap).unwrap().len(), values.len() + 1);
}

/// The result of a run.
#[derive(Default)]
struct Seen {
    sections: u32,
    persists: u32,
    most: u64,
}

/// Runs the program; a persist comes after each section for which `when` says so.
fn run(when: impl Fn(u32) -> bool, cold: bool) -> (Seen, Result<(), Failure>) {
    let chip = Shared::blank(MEDIUM);
    let mut ram = vec![0u8; RAM];
    let (base, saver) = (ram.as_mut_ptr(), Saver::new());
    let seen = RefCell::new(Seen::default());
    let result;
    brand!(b);
    {
        let mut heap = TestHeap::open(b, chip.clone(), &mut ram, CONFIG, root).unwrap();
        let blackout = || {
            let mut seen = seen.borrow_mut();
            seen.sections += 1;
            if !when(seen.sections) {
                return;
            }
            let before = chip.written();
            // SAFETY: no reference out of a guard is used across a section.
            unsafe { saver.persist() }.unwrap();
            seen.persists += 1;
            seen.most = seen.most.max(chip.written() - before);
            if cold {
                reopen(chip.bytes());
            }
            if !cfg!(miri) {
                // SAFETY: the buffer lives as long as the heap, which has not used it since the
                // persist.
                unsafe { base.write_bytes(0xDB, RAM) };
            }
            // SAFETY: as above; the rest of RAM is as it was.
            unsafe { saver.restore() }.unwrap();
        };
        result = heap
            .attach(&saver, || {
                let run = || match cfg!(miri) {
                    true => flat_program(&heap),
                    false => program(&heap),
                };
                // SAFETY: the hook only persists and restores.
                unsafe { instrument::interrupted(blackout, run) }
            })
            .unwrap();
        if result.is_ok() {
            let audit = heap.audit().unwrap();
            let left = if cfg!(miri) { 1 } else { 9 };
            assert_eq!((audit.reachable, audit.allocated), (left, left));
        }
    }
    (seen.into_inner(), result)
}

/// Interrupts are masked for at most a burst and its metadata.
#[test]
fn no_section_moves_more_than_a_burst() {
    for burst in [1, 32, 90, 128, 256, 400] {
        let (mut ram, chip) = (vec![0; RAM], Shared::blank(MEDIUM));
        let config = Config { burst, ..CONFIG };
        brand!(b);
        let heap = TestHeap::open(b, chip.clone(), &mut ram, config, root).unwrap();
        let (before, most) = (Cell::new(chip.moved()), Cell::new(0));
        let operations = || chip.0.lock().unwrap().operations;
        let (begun, most_calls) = (Cell::new(operations()), Cell::new(0));
        let section_ended = || {
            let moved = chip.moved() - before.replace(chip.moved());
            most.set(most.get().max(moved));
            let calls = operations() - begun.replace(operations());
            most_calls.set(most_calls.get().max(calls));
        };
        // SAFETY: the hook does not use the heap.
        unsafe { instrument::interrupted(section_ended, || program(&heap)) }.unwrap();
        let bound = u64::from(burst.max(32)) + 28;
        let most = most.get();
        let wait = config.worst_case(&CostModel::ESP32C3_MB85RS4MT).wait;
        assert_eq!(u64::from(wait.bytes), bound);
        let calls = most_calls.get();
        assert!(
            calls <= u64::from(wait.operations),
            "{burst}: {calls} calls"
        );
        assert!(
            most <= bound && most > bound / 2,
            "{burst}: {most} of {bound}"
        );
    }
}

#[test]
fn a_blackout_after_every_section() {
    let (seen, result) = run(|_| false, false);
    result.unwrap();
    let step = if cfg!(miri) { 7 } else { 1 };
    assert!(
        seen.sections > if cfg!(miri) { 200 } else { 300 },
        "{}",
        seen.sections
    );
    let mut most = 0;
    for k in (1..=seen.sections).step_by(step) {
        let (seen, result) = run(|n| n == k, false);
        result.unwrap_or_else(|e| panic!("a blackout after section {k}: {e}"));
        assert_eq!(seen.persists, 1);
        most = most.max(seen.most);
    }
    let bound = u64::from(CONFIG.worst_case(&CostModel::ESP32C3_MB85RS4MT).bytes);
    println!(
        "{} sections, a persist wrote at most {most} of {bound} bytes",
        seen.sections
    );
    assert!(most <= bound && bound <= u64::from(LIMIT) + 64);
    assert!(
        cfg!(miri) || bound * 10 <= most * 11,
        "the bound {bound} is far from {most}"
    );
}

#[test]
fn a_cold_boot_after_every_section() {
    let (seen, _) = run(|_| false, false);
    let step = if cfg!(miri) { 61 } else { 1 };
    for k in (1..=seen.sections).step_by(step) {
        let (_, result) = run(|n| n == k, true);
        result.unwrap_or_else(|e| panic!("a boot after section {k}: {e}"));
    }
}

#[test]
fn many_blackouts() {
    for every in [2, 3, 5, 7, 20, 50] {
        for from in (0..10).step_by(if cfg!(miri) { 9 } else { 1 }) {
            match run(|n| n >= from && n % every == 0, false).1 {
                Ok(()) => {}
                // Too many for a long operation; never a hang.
                Err(Error::NoProgress) => assert!(every < 50, "{every}"),
                Err(e) => panic!("a blackout after every {every} sections: {e}"),
            }
        }
    }
}

#[test]
fn interrupts_faster_than_an_operation_are_detected() {
    let (_, result) = run(|_| true, false);
    assert_eq!(result, Err(Error::NoProgress));
}

#[test]
fn nothing_works_between_a_persist_and_its_restore() {
    let (chip, mut ram, saver) = (Shared::blank(MEDIUM), vec![0u8; RAM], Saver::new());
    brand!(b);
    let heap = TestHeap::open(b, chip, &mut ram, CONFIG, root).unwrap();
    let call = |persist: bool| {
        // SAFETY: no reference out of a guard is used.
        unsafe {
            if persist {
                saver.persist()
            } else {
                saver.restore()
            }
        }
    };
    assert_eq!(call(true), Err(Error::Detached));
    let x = heap.alloc(1u32).unwrap();
    heap.attach(&saver, || {
        assert_eq!(call(false), Err(Error::Suspended));
        call(true).unwrap();
        assert!(matches!(heap.get(&x), Err(Error::Suspended)));
        assert!(matches!(heap.alloc(2u32), Err(r) if r.error == Error::Suspended && r.value == 2));
        // A persist in a pending persist is refused: it would write what is no longer there.
        assert_eq!(call(true), Err(Error::Suspended));
        call(false).unwrap();
        assert_eq!(heap.read(&x).unwrap(), 1);
        let other = heap.attach(&saver, || ());
        assert_eq!(other, Err(Error::Busy));
    })
    .unwrap();
    assert_eq!(call(true), Err(Error::Detached));
}

#[test]
fn a_heap_is_detached_when_its_program_unwinds() {
    let (chip, mut ram, saver) = (Shared::blank(MEDIUM), vec![0u8; RAM], Saver::new());
    brand!(b);
    let heap = TestHeap::open(b, chip, &mut ram, CONFIG, root).unwrap();
    let ran = Cell::new(false);
    let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        heap.attach(&saver, || {
            ran.set(true);
            std::panic::resume_unwind(Box::new(()))
        })
    }));
    assert!(r.is_err() && ran.get());
    // SAFETY: nothing is attached.
    assert_eq!(unsafe { saver.persist() }, Err(Error::Detached));
}

/// The driver fails in an operation, and again in the persist of an interrupt that comes before the
/// operation returns.
#[test]
fn each_is_told_what_the_driver_said() {
    let mut told = 0;
    for n in 0..if cfg!(miri) { 4 } else { 40 } {
        let (chip, mut ram, saver) = (Shared::blank(MEDIUM), vec![0u8; RAM], Saver::new());
        brand!(b);
        let heap = TestHeap::open(b, chip.clone(), &mut ram, CONFIG, root).unwrap();
        heap.attach(&saver, || {
            for i in 0..12 {
                push(&heap, i).unwrap();
            }
            chip.0.lock().unwrap().fails_after = Some(n);
            let hook = || {
                if chip.0.lock().unwrap().fails_after == Some(0) {
                    // SAFETY: the heap that is attached is not used meanwhile.
                    assert_eq!(unsafe { saver.persist() }, Err(Error::Medium(())));
                }
            };
            // SAFETY: the hook only persists.
            let r = unsafe { instrument::interrupted(hook, || walk(&heap)) };
            chip.0.lock().unwrap().fails_after = None;
            if let Err(e) = r {
                assert_eq!(e, Error::Medium(Misuse::WornOut));
                told += 1;
            }
        })
        .unwrap();
    }
    assert!(told > 3, "{told}");
}

#[test]
fn a_persist_that_the_medium_breaks_off_can_be_repeated() {
    for n in (0..).step_by(if cfg!(miri) { 7 } else { 1 }) {
        let (chip, mut ram) = (Shared::blank(MEDIUM), vec![0u8; RAM]);
        brand!(b);
        let mut heap = TestHeap::open(b, chip.clone(), &mut ram, CONFIG, root).unwrap();
        for i in 0..5 {
            push(&heap, i).unwrap();
        }
        chip.0.lock().unwrap().fails_after = Some(n);
        let r = heap.persist();
        chip.0.lock().unwrap().fails_after = None;
        if r.is_ok() {
            assert!(n > 10);
            break;
        }
        assert!(matches!(r, Err(Error::Medium(_))));
        let image = chip.bytes();
        {
            let mut ram = vec![0u8; RAM];
            brand!(c);
            let e = TestHeap::open(c, Shared::new(image), &mut ram, CONFIG, root).err();
            assert!(matches!(e, Some(OpenError::Interrupted)), "{e:?}");
        }
        assert_eq!(walk(&heap).unwrap(), [4, 3, 2, 1, 0]);
        heap.persist().unwrap();
        reopen(chip.bytes());
        heap.restore().unwrap();
        assert_eq!(walk(&heap).unwrap(), [4, 3, 2, 1, 0]);
    }
}

/// The heap does not notice writes through a guard after a restore. So the restore itself counts as
/// a change.
#[test]
fn a_guard_to_write_that_comes_back_is_a_change() {
    for mutable in [false, true] {
        let (chip, mut ram) = (Shared::blank(MEDIUM), vec![0u8; RAM]);
        brand!(b);
        let mut heap = TestHeap::open(b, chip.clone(), &mut ram, CONFIG, root).unwrap();
        push(&heap, 0).unwrap();
        if mutable {
            std::mem::forget(heap.root_mut().unwrap());
        } else {
            std::mem::forget(heap.root().unwrap());
        }
        heap.persist().unwrap();
        reopen(chip.bytes());
        heap.restore().unwrap();
        let mut ram = vec![0u8; RAM];
        brand!(c);
        let opened = TestHeap::open(c, Shared::new(chip.bytes()), &mut ram, CONFIG, root).err();
        let interrupted = matches!(opened, Some(OpenError::Interrupted));
        assert_eq!(interrupted, mutable, "{opened:?}");
    }
}
