//! Hostile safe code: modes, media, policies and allocators that lie, panic or call back. Memory is
//! never touched outside of the borrowed buffers, and valid checkpoints stay valid. Run under Miri
//! in both borrow models.

use checkpoint::nvmem::device::{Contract, EraseUnit, Medium, Misuse, Torn};
use checkpoint::nvmem::ram::{RamFram, RamNor};
use checkpoint::{
    Archive, Blocks, CopyIfChange, Error, Every, Extent, Full, HeapTracker, Images, KeepLast, Log,
    Memory, Mode, Retention, Slots, Split, Store, TrackedHeap, inspect,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

const PROGRAM: u64 = 7;

/// A panic without message and backtrace, which take Miri minutes.
fn panic_if(now: bool) {
    if now {
        resume_unwind(Box::new(()));
    }
}

/// Borrowed memory between guard bytes.
#[derive(Clone, PartialEq, Debug)]
struct Program([u8; 48]);

impl Program {
    fn of(n: u8) -> Self {
        Program(std::array::from_fn(|i| {
            n.wrapping_mul(31).wrapping_add(i as u8) | 1
        }))
    }
    /// Four guard bytes before, between and behind the three segments.
    fn memory(&mut self) -> Memory<'_> {
        let [_, rest @ ..] = self.0.as_chunks_mut::<4>().0 else {
            unreachable!()
        };
        let (a, rest) = rest.split_at_mut(3);
        let (b, rest) = rest[1..].split_at_mut(2);
        let (c, _) = rest[1..].split_at_mut(2);
        Memory::new(
            a.as_flattened_mut(),
            b.as_flattened_mut(),
            c.as_flattened_mut(),
        )
    }
}

/// Restores over other bytes: the segments have their old content, and the guards are unchanged.
fn comes_back<S: Store>(store: &mut S, n: u8) {
    let mut found = Program([0; 48]);
    let r = store
        .load(&mut found.memory())
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(r.context, u32::from(n));
    for (i, (found, was)) in found.0.iter().zip(Program::of(n).0).enumerate() {
        let guard = matches!(i / 4, 0 | 4 | 7 | 10 | 11);
        assert_eq!(*found, if guard { 0 } else { was }, "byte {i}");
    }
}

type Fram = RamFram<1024>;
type Nor = RamNor<40, 64, 16>;

fn images<D: Medium, const N: usize>(d: D) -> Images<D, N> {
    let all = 0..d.capacity() / D::CONTRACT.alignment() * D::CONTRACT.alignment();
    Images::open(d, all, PROGRAM).unwrap_or_else(|e| panic!("{e}"))
}

/// Takes a good checkpoint, and then one in this mode. The second is refused or valid, and reads
/// nothing outside of the borrowed memory. After a panic the same `Images` continues.
fn hostile_mode(mode: &impl Mode) {
    fn on<D: Medium, const N: usize>(d: D, mode: &impl Mode) {
        let mut kept = images::<D, N>(d);
        kept.checkpoint(&Full, &Program::of(1).memory(), 1).unwrap();
        let again = catch_unwind(AssertUnwindSafe(|| {
            kept.checkpoint(mode, &Program::of(2).memory(), 2)
        }));
        if matches!(again, Ok(Ok(()))) {
            let mut found = Program([0; 48]);
            assert_eq!(kept.restore(&mut found.memory()).unwrap().context, 2);
        } else {
            comes_back(&mut Slots::new(kept, Full), 1);
        }
    }
    on::<_, 2>(Fram::filled(0), mode);
    on::<_, 3>(Nor::new(), mode);
}

/// Returns extents of another, larger memory.
struct OfAnother(Vec<Extent>);
impl Mode for OfAnother {
    fn extents(&self, _: &Memory<'_>) -> impl Iterator<Item = Extent> + Clone {
        self.0.iter().copied()
    }
}

#[test]
fn parts_of_another_memory() {
    let (mut a, mut b, mut c) = ([1; 500], [2; 30], [3; 7]);
    let other = Memory::new(&mut a, &mut b, &mut c).stack_from(3);
    let all = [
        other.statics(),
        other.heap(),
        other.stack(),
        other.stack_in_use(),
        other.heap_in_use(),
    ];
    for n in 0..=all.len() {
        hostile_mode(&OfAnother(all[..n].to_vec()));
        hostile_mode(&CopyIfChange(OfAnother(all[n..].to_vec())));
    }
    // Larger than any segment: one KiB has no space for it.
    let huge = OfAnother(vec![other.statics(); 40]);
    let r = images::<_, 2>(Fram::filled(0)).checkpoint(&huge, &Program::of(1).memory(), 1);
    assert!(matches!(r, Err(Error::TooSmall { .. })));
}

/// Panics at the n-th extent, over all calls.
struct Panics(Cell<u32>);
impl Mode for Panics {
    const COMPARE: bool = true;
    fn extents(&self, memory: &Memory<'_>) -> impl Iterator<Item = Extent> + Clone {
        let parts = [memory.statics(), memory.heap(), memory.stack()];
        parts.into_iter().inspect(|_| {
            self.0.set(self.0.get().wrapping_sub(1));
            panic_if(self.0.get() == 0);
        })
    }
}

#[test]
fn a_mode_panics() {
    for n in 1..if cfg!(miri) { 5 } else { 12 } {
        hostile_mode(&Panics(Cell::new(n)));
    }
}

/// Takes a checkpoint of the same memory to another medium, during a checkpoint.
struct Reenters(RefCell<Images<Fram, 2>>, Cell<u32>);
impl Mode for Reenters {
    fn extents(&self, memory: &Memory<'_>) -> impl Iterator<Item = Extent> + Clone {
        let n = self.1.get() + 1;
        self.1.set(n);
        let taken = self.0.borrow_mut().checkpoint(&Full, memory, n);
        taken.expect("room");
        [memory.statics(), memory.heap(), memory.stack()].into_iter()
    }
}

#[test]
fn a_checkpoint_in_a_checkpoint() {
    let mode = Reenters(RefCell::new(images(Fram::filled(0))), Cell::new(0));
    let mut outer = images::<_, 2>(Fram::filled(0));
    outer
        .checkpoint(&mode, &Program::of(5).memory(), 5)
        .unwrap();
    comes_back(&mut Slots::new(outer, Full), 5);
    let mut inner = mode.0.into_inner();
    let mut found = Program([0; 48]);
    inner.restore(&mut found.memory()).unwrap();
    assert_eq!(found.0[4..16], Program::of(5).0[4..16]);
}

/// Answers differently for a block each time, and panics after enough calls.
struct Moody(Cell<u32>, u32);
impl Blocks for Moody {
    fn in_use(&self, block: u32) -> bool {
        self.0.set(self.0.get() + 1);
        panic_if(self.0.get() >= self.1);
        (self.0.get() * 7 + block).is_multiple_of(3)
    }
}

#[test]
fn a_table_with_changing_answers() {
    for last in [u32::MAX, 1, 3, 7] {
        hostile_mode(&HeapTracker(&Moody(Cell::new(0), last)));
    }
}

/// The fault of a medium.
#[derive(Clone, Copy, PartialEq)]
enum Wrong {
    Nothing,
    /// Panics at the n-th call.
    Panics(u32),
    /// From the n-th read on, each byte changes at each read.
    Noise(u32),
    /// Its capacity becomes zero.
    Shrinks,
}

struct Hostile<D> {
    d: D,
    calls: u32,
    wrong: Wrong,
}

impl<D: Medium<Error = Misuse>> Medium for Hostile<D> {
    type Error = Misuse;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        if self.wrong == Wrong::Shrinks {
            0
        } else {
            self.d.capacity()
        }
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        self.call();
        self.d.read(at, buf)?;
        if let Wrong::Noise(from) = self.wrong
            && self.calls > from
        {
            for (i, b) in buf.iter_mut().enumerate() {
                *b ^= (self.calls.wrapping_mul(0x9E37_79B9) >> (i % 24)) as u8;
            }
        }
        Ok(())
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        self.call();
        self.d.write(at, bytes)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Misuse> {
        self.call();
        self.d.erase(from, to)
    }
}

impl<D> Hostile<D> {
    fn call(&mut self) {
        self.calls += 1;
        if let Wrong::Panics(n) = self.wrong {
            panic_if(n == self.calls);
        }
    }
}

/// Takes three checkpoints, the last one with the faulty medium, and restores with it. Memory
/// outside of the borrowed buffers is never touched. Once the medium works again, the same value
/// finds a valid checkpoint.
fn hostile_medium<S: Store>(mut store: S, wrong: Wrong, set: impl Fn(&mut S, Wrong)) {
    store.save(&Program::of(1).memory(), 1).unwrap();
    store.save(&Program::of(2).memory(), 2).unwrap();
    set(&mut store, wrong);
    let mut found = Program([0; 48]);
    let _ = catch_unwind(AssertUnwindSafe(|| {
        store.save(&Program::of(3).memory(), 3).ok();
        store.load(&mut found.memory()).ok();
    }));
    for (i, b) in found.0.iter().enumerate() {
        assert!(*b == 0 || !matches!(i / 4, 0 | 4 | 7 | 10 | 11), "byte {i}");
    }
    set(&mut store, Wrong::Nothing);
    let r = store.load(&mut found.memory());
    // Noise may have looked like damage, and the slot was overwritten.
    if let Wrong::Noise(_) = wrong {
        return;
    }
    let n = r.unwrap_or_else(|e| panic!("{e}")).context as u8;
    assert!(n == 2 || n == 3, "{n}");
    comes_back(&mut store, n);
}

#[test]
fn media_that_panic_lie_or_shrink() {
    let last = if cfg!(miri) { 12 } else { 60 };
    let panics = (1..last)
        .step_by(if cfg!(miri) { 5 } else { 1 })
        .map(Wrong::Panics);
    let noise = (0..last)
        .step_by(if cfg!(miri) { 5 } else { 1 })
        .map(Wrong::Noise);
    for wrong in panics.chain(noise).chain([Wrong::Shrinks]) {
        let hostile = Cell::new(None::<Wrong>);
        let shared = &hostile;
        let set = |_: &mut _, w: Wrong| shared.set(Some(w));
        let fram = Switched(
            Hostile {
                d: Fram::filled(0),
                calls: 0,
                wrong: Wrong::Nothing,
            },
            shared,
        );
        hostile_medium(
            Slots::new(images::<_, 2>(fram), CopyIfChange(Split)),
            wrong,
            set,
        );
        hostile.set(None);
        let set = |_: &mut _, w: Wrong| shared.set(Some(w));
        let nor = Switched(
            Hostile {
                d: Nor::new(),
                calls: 0,
                wrong: Wrong::Nothing,
            },
            shared,
        );
        hostile_medium(Slots::new(images::<_, 3>(nor), Full), wrong, set);
        hostile.set(None);
        let set = |_: &mut _, w: Wrong| shared.set(Some(w));
        let nor = Switched(
            Hostile {
                d: Nor::new(),
                calls: 0,
                wrong: Wrong::Nothing,
            },
            shared,
        );
        let log = Log::<_, 8, 32, 32>::open(nor, 0..40 * 64, PROGRAM).unwrap();
        hostile_medium(log, wrong, set);
    }
}

/// A medium whose fault is switched on from outside.
struct Switched<'c, D>(Hostile<D>, &'c Cell<Option<Wrong>>);
impl<D: Medium<Error = Misuse>> Switched<'_, D> {
    fn turn(&mut self) {
        if let Some(wrong) = self.1.take() {
            (self.0.wrong, self.0.calls) = (wrong, 0);
        }
    }
}
impl<D: Medium<Error = Misuse>> Medium for Switched<'_, D> {
    type Error = Misuse;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        self.0.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        self.turn();
        self.0.read(at, buf)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        self.turn();
        self.0.write(at, bytes)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Misuse> {
        self.turn();
        self.0.erase(from, to)
    }
}

/// Words, reads and erase units whose sizes are no powers of two.
struct Odd(Vec<u8>);
impl Medium for Odd {
    type Error = Misuse;
    const CONTRACT: Contract = Contract {
        name: "odd",
        read_size: 3,
        write_size: 6,
        unit: 1,
        torn: Torn::Unstable,
        erase: Some(EraseUnit {
            size: 42,
            erased: 0,
            write_once: true,
            endurance: 0,
        }),
    };
    fn capacity(&self) -> u32 {
        self.0.len() as u32
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        assert!(
            at.is_multiple_of(3) && buf.len().is_multiple_of(3),
            "{at} {}",
            buf.len()
        );
        buf.copy_from_slice(&self.0[at as usize..][..buf.len()]);
        Ok(())
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        assert!(
            at.is_multiple_of(6) && bytes.len().is_multiple_of(6),
            "{at} {}",
            bytes.len()
        );
        self.0[at as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Misuse> {
        assert!(
            from.is_multiple_of(42) && to.is_multiple_of(42),
            "{from} {to}"
        );
        self.0[from as usize..to as usize].fill(0);
        Ok(())
    }
}

#[test]
fn odd_sizes() {
    let mut d = Odd(vec![0; 42 * 18]);
    let mut store = Slots::new(images::<_, 3>(&mut d), CopyIfChange(Full));
    for n in 1..6 {
        store.save(&Program::of(n).memory(), n.into()).unwrap();
        comes_back(&mut store, n);
    }
}

/// A policy names slots without a checkpoint, or panics.
struct Greedy(usize);
impl Retention for Greedy {
    fn victim(&self, _: &[Option<u32>]) -> usize {
        panic_if(self.0 == 77);
        self.0
    }
}

#[test]
fn policies_that_ask_for_anything() {
    for asked in [0, 1, 3, 4, 77, usize::MAX] {
        let mut a =
            Archive::<_, _, _, 4>::open(Fram::filled(0), 0..1024, PROGRAM, Full, Greedy(asked))
                .unwrap();
        let mut newest = 0;
        for n in 1..7 {
            let taken = catch_unwind(AssertUnwindSafe(|| {
                a.save(&Program::of(n).memory(), n.into()).unwrap();
            }));
            if taken.is_ok() {
                newest = n;
            }
            comes_back(&mut a, newest);
        }
        assert_eq!(newest, if asked == 77 { 4 } else { 6 });
    }
    // The interval is any number.
    let mut a =
        Archive::<_, _, _, 4>::open(Fram::filled(0), 0..1024, PROGRAM, Full, Every(u32::MAX))
            .unwrap();
    for n in 1..7 {
        a.save(&Program::of(n).memory(), n.into()).unwrap();
    }
    comes_back(&mut a, 6);
}

/// Empty segments, at addresses that are no memory.
#[test]
fn memory_of_nothing() {
    let nothing = (
        std::ptr::without_provenance_mut(usize::MAX),
        std::ptr::without_provenance_mut(8),
    );
    let dangling = (std::ptr::dangling_mut(), std::ptr::dangling_mut());
    // SAFETY: *Segments are memory*: they are empty.
    let mut memory = unsafe { Memory::from_addresses(nothing, dangling, nothing) };
    let mut i = images::<_, 2>(Fram::filled(0));
    i.checkpoint(&CopyIfChange(Split), &memory, 3).unwrap();
    assert_eq!(i.restore(&mut memory).unwrap().context, 3);
    let mut log =
        Log::<_, 1, 32, 32>::open(RamNor::<40, 64, 16>::new(), 0..40 * 64, PROGRAM).unwrap();
    log.save(&memory, 4).unwrap();
    assert_eq!(log.load(&mut memory).unwrap().context, 4);
    // The parts in use are clamped to the segments.
    let mut memory = Memory::new(&mut [], &mut [], &mut [])
        .heap_used(usize::MAX)
        .stack_from(usize::MAX);
    i.checkpoint(&Split, &memory, 5).unwrap();
    assert_eq!(i.restore(&mut memory).unwrap().context, 5);
}

/// A store behind a reference, as a trait object, and dropped early.
#[test]
fn stores_behind_references() {
    let mut fram = Fram::filled(0);
    let mut slots = Slots::new(images::<_, 2>(&mut fram), Full);
    let store: &mut dyn Store<Error = Misuse> = &mut slots;
    store.save(&Program::of(1).memory(), 1).unwrap();
    comes_back(&mut { store }, 1);
    let mut archive =
        Archive::<_, _, _, 4>::open(Fram::filled(0), 0..1024, PROGRAM, Split, KeepLast).unwrap();
    (&mut &mut archive)
        .save(&Program::of(2).memory(), 2)
        .unwrap();
    comes_back(&mut &mut archive, 2);
}

static HEAP: TrackedHeap<System, 8> = TrackedHeap::new(System, std::ptr::dangling());

/// A table of a heap at another address: its answers are wrong, but nothing else is.
#[test]
fn a_table_of_another_place() {
    let here = [0u8; 4];
    for start in [
        std::ptr::null(),
        std::ptr::without_provenance(usize::MAX),
        here.as_ptr(),
    ] {
        let heap = TrackedHeap::<_, 4>::new(System, start);
        for size in [1, 127, 128, 129, 5000] {
            let layout = Layout::from_size_align(size, 64).unwrap();
            // SAFETY: not of size zero; freed once, with the layout it was allocated with.
            unsafe {
                let p = heap.alloc_zeroed(layout);
                p.write_bytes(1, size);
                let p = heap.realloc(p, layout, size + 200);
                heap.dealloc(p, Layout::from_size_align(size + 200, 64).unwrap());
            }
        }
        assert_eq!((heap.occupation(), heap.span(), heap.used()), (0, 0, 0));
        assert!(heap.fragmentation() <= 1000);
    }
}

/// Threads allocate from a static while another thread reads its table.
#[test]
fn threads_allocate() {
    std::thread::scope(|s| {
        for t in 0..3 {
            s.spawn(move || {
                for i in 0..if cfg!(miri) { 3 } else { 300 } {
                    let layout = Layout::from_size_align(1 + (i * 37 + t * 11) % 400, 8).unwrap();
                    // SAFETY: not of size zero; freed once, with the layout it was allocated with.
                    unsafe {
                        let p = HEAP.alloc(layout);
                        p.write_bytes(t as u8, layout.size());
                        HEAP.dealloc(p, layout);
                    }
                }
            });
        }
        s.spawn(|| {
            for block in 0..10 {
                let _ = (HEAP.in_use(block), HEAP.used(), HEAP.fragmentation());
            }
        });
    });
    assert_eq!((HEAP.occupation(), HEAP.largest()), (0, 0));
}

/// A program that never ends keeps its memory borrowed; here it ends by a panic.
#[test]
fn a_program_that_never_returns() {
    fn main_loop(state: &mut Program, store: &mut impl Store) -> ! {
        let mut n = 0;
        loop {
            store.save(&state.memory(), n).ok();
            store.load(&mut state.memory()).ok();
            state.0[5] ^= 1;
            n += 1;
            panic_if(n >= 4);
        }
    }
    let mut state = Program::of(1);
    let mut store = Slots::new(images::<_, 2>(Fram::filled(0)), Full);
    let ended = catch_unwind(AssertUnwindSafe(|| main_loop(&mut state, &mut store)));
    assert!(ended.is_err());
    assert_eq!(store.load(&mut state.memory()).unwrap().context, 3);
}

/// `inspect` accepts any bytes and any program word.
#[test]
fn a_dump_with_any_word() {
    let mut fram = Fram::filled(0);
    let mut log = Log::<_, 8, 8, 32>::open(&mut fram, 0..1024, PROGRAM).unwrap();
    // In both anchors.
    log.save(&Program::of(1).memory(), 1).unwrap();
    log.save(&Program::of(2).memory(), 2).unwrap();
    let mut other = Fram::filled(0);
    let mut slots = Slots::new(images::<_, 2>(&mut other), Full);
    slots.save(&Program::of(1).memory(), 1).unwrap();
    for word in [0, 1, 3, 255, 1 << 31, u32::MAX - 1, u32::MAX] {
        let mut out = String::new();
        inspect::log(fram.bytes(), word, &mut out).unwrap();
        assert!(out.contains("record at 0x0000: number "), "{out}");
        assert!(inspect::has_log(fram.bytes(), word));
        inspect::images(other.bytes(), word, &mut out).unwrap();
        assert!(out.contains("image at 0x0000"), "{out}");
    }
}
