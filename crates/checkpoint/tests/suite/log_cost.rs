//! Compares the cost of the log with that of slots of whole images, on flash of three kinds, by
//! counted work and the named models.

use crate::support::nor::nor;
use checkpoint::{CopyIfChange, Cost, Full, Images, Log, Memory, Mode, Slots, Split, Store, Work};
use nvmem::device::{Contract, Medium};

/// Flash that counts.
struct Counting<const WORD: u32, const ERASE: u32> {
    bytes: Vec<u8>,
    cost: Cost,
    work: Work,
}

impl<const WORD: u32, const ERASE: u32> Counting<WORD, ERASE> {
    fn new(len: u32, cost: Cost) -> Self {
        let len = len.next_multiple_of(ERASE) as usize;
        Counting {
            bytes: vec![0xFF; len],
            cost,
            work: Work::default(),
        }
    }
}

impl<const WORD: u32, const ERASE: u32> Medium for Counting<WORD, ERASE> {
    type Error = ();
    const CONTRACT: Contract = nor("counting", WORD, ERASE, 0xFF);
    fn capacity(&self) -> u32 {
        self.bytes.len() as u32
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), ()> {
        buf.copy_from_slice(&self.bytes[at as usize..][..buf.len()]);
        // Nearly all reads of a checkpoint are for comparing.
        self.work.compared += buf.len() as u64;
        Ok(())
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), ()> {
        self.work.programs += self.cost.operations(at, bytes.len() as u32);
        self.bytes[at as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), ()> {
        self.work.erases += u64::from((to - from) / ERASE);
        self.bytes[from as usize..to as usize].fill(0xFF);
        Ok(())
    }
}

/// A program's memory: blocks of 128 bytes in the heap change.
struct Ram {
    statics: Vec<u8>,
    heap: Vec<u8>,
    stack: Vec<u8>,
    used: usize,
    rng: powerfail::Rng,
}

impl Ram {
    fn new(heap: usize) -> Self {
        Ram {
            statics: vec![1; 2048],
            heap: vec![2; heap],
            stack: vec![3; 1024],
            used: heap * 3 / 4,
            rng: powerfail::Rng::new(1),
        }
    }
    fn memory(&mut self) -> Memory<'_> {
        Memory::new(&mut self.statics, &mut self.heap, &mut self.stack).heap_used(self.used)
    }
    fn random(&mut self) -> u32 {
        self.rng.next_u32()
    }
    fn change(&mut self, blocks: u32) {
        for _ in 0..blocks {
            let block = self.random() as usize % (self.used / 128);
            let byte = self.random() as u8 | 1;
            self.heap[block * 128 + 7] = byte;
            self.heap[block * 128 + 77] ^= byte;
        }
    }
    /// Many blocks change and the heap grows and shrinks; few blocks change; hardly any.
    fn phase(&mut self, n: u32, most: u32) {
        match n / 20 % 3 {
            0 => {
                let least = self.heap.len() / 2;
                self.used = least + self.random() as usize % (self.heap.len() / 4);
                self.change(most / 3);
            }
            1 => self.change(10),
            _ => self.change(1),
        }
    }
}

/// The mean energy of a checkpoint in microjoules.
fn mean<const W: u32, const E: u32>(
    mut store: impl Store,
    meter: impl Fn() -> Work,
    cost: &Cost,
    heap: usize,
    change: impl Fn(&mut Ram, u32),
) -> f64 {
    let mut ram = Ram::new(heap);
    let mut from = Work::default();
    for n in 0..120 {
        if n == 60 {
            from = meter();
        }
        change(&mut ram, n);
        store
            .save(&ram.memory(), n)
            .unwrap_or_else(|e| panic!("{e}"));
    }
    let to = meter();
    (cost.energy_nj(&to) - cost.energy_nj(&from)) as f64 / 60.0 / 1000.0
}

/// A medium whose work can be read.
type Shared<const W: u32, const E: u32> = std::rc::Rc<std::cell::RefCell<Counting<W, E>>>;
struct Handle<const W: u32, const E: u32>(Shared<W, E>);
impl<const W: u32, const E: u32> Medium for Handle<W, E> {
    type Error = ();
    const CONTRACT: Contract = Counting::<W, E>::CONTRACT;
    fn capacity(&self) -> u32 {
        self.0.borrow().capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), ()> {
        self.0.borrow_mut().read(at, buf)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), ()> {
        self.0.borrow_mut().write(at, bytes)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), ()> {
        self.0.borrow_mut().erase(from, to)
    }
}

fn slots<const W: u32, const E: u32, M: Mode>(
    mode: M,
    cost: Cost,
    heap: usize,
    change: impl Fn(&mut Ram, u32),
) -> f64 {
    let len = Images::<Handle<W, E>, 3>::bytes(heap as u32 + 3072, 3);
    let d = Shared::new(Counting::<W, E>::new(len, cost).into());
    let all = 0..d.borrow().capacity();
    let Ok(images) = Images::<_, 3>::open(Handle(d.clone()), all, 1) else {
        panic!("it is large enough")
    };
    mean::<W, E>(
        Slots::new(images, mode),
        || d.borrow().work,
        &cost,
        heap,
        change,
    )
}

fn log<const W: u32, const E: u32, const UNITS: usize>(
    cost: Cost,
    heap: usize,
    change: impl Fn(&mut Ram, u32),
) -> f64 {
    // Three times the bytes in use.
    let len = (heap as u32 * 3 / 4 + 3072) * 3 / E * E;
    let d = Shared::new(Counting::<W, E>::new(len, cost).into());
    let all = 0..d.borrow().capacity();
    let Ok(log) = Log::<_, 640, UNITS>::open(Handle(d.clone()), all, 1) else {
        panic!("it is large enough")
    };
    mean::<W, E>(
        log.with_cost(&cost),
        || d.borrow().work,
        &cost,
        heap,
        change,
    )
}

fn compare<const W: u32, const E: u32, const UNITS: usize>(cost: Cost, heap: usize) -> [f64; 3] {
    let most = heap as u32 / 128;
    type Workload = (&'static str, fn(&mut Ram, u32, u32));
    let workloads: [Workload; 3] = [
        ("phases", |r, n, most| r.phase(n, most)),
        ("10 blocks", |r, _, _| r.change(10)),
        ("all", |r, n, _| {
            r.heap.iter_mut().for_each(|b| *b = n as u8)
        }),
    ];
    workloads.map(|(name, f)| {
        let change = |r: &mut Ram, n| f(r, n, most);
        let split = slots::<W, E, _>(Split, cost, heap, change);
        let changed = slots::<W, E, _>(CopyIfChange(Split), cost, heap, change);
        let full = slots::<W, E, _>(CopyIfChange(Full), cost, heap, change);
        let log = log::<W, E, UNITS>(cost, heap, change);
        let best = split.min(changed).min(full);
        println!(
            "{:9} {name:10} split {split:8.0} µJ, changed {changed:8.0}, of all {full:8.0}, log {log:8.0}: {:.3}",
            cost.name,
            log / best
        );
        log / best
    })
}

#[test]
#[cfg_attr(miri, ignore = "5,760 checkpoints of up to 80 KiB")]
fn less_than_slots() {
    let l1 = compare::<128, 256, 960>(Cost::STM32L1, 77 * 1024);
    let mapped = Cost::STM32L1.with_compare_cost(Cost::MAPPED_PJ, 80);
    let phys = compare::<128, 256, 960>(mapped, 77 * 1024);
    let f0 = compare::<4, 2048, 48>(Cost::STM32F0, 29 * 1024);
    let spi = compare::<1, 4096, 60>(Cost::SPI_NOR, 77 * 1024);
    for [phases, few, all] in [l1, phys, f0, spi] {
        assert!(phases <= 0.5, "{phases}");
        assert!(few < 0.9 && all < 1.03, "{few} {all}");
    }
}
