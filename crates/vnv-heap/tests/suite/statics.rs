//! Heaps that live as long as the program, stored with their handles.

use critical_section as _;
use critical_section::Mutex;
use nvmem::ram::RamFram;
use nvmem::{Medium, Persist};
use std::cell::RefCell;
use vnv_heap::collections::{Blob, Chunked, Fifo, Map, Vector};
use vnv_heap::{Brand, Config, Error, Fields, Heap, JustInTime, OpenError, Own, Predict};
use vnv_heap::{brand, static_brand};

type Fram = RamFram<4096>;

fn ram() -> &'static mut [u8] {
    Box::leak(Box::new([0; 1024]))
}

#[derive(Persist, Fields)]
#[repr(C)]
struct Root<'h> {
    first: Option<Own<'h, Node<'h>>>,
    count: u32,
}

#[derive(Persist, Fields)]
#[repr(C)]
struct Node<'h> {
    value: u32,
    next: Option<Own<'h, Node<'h>>>,
}

/// As an application is stored, or given to a task.
struct App {
    heap: Heap<'static, Root<'static>, Fram, JustInTime>,
    last: Option<Own<'static, Node<'static>>>,
}

impl App {
    fn push(&mut self, value: u32) -> Result<(), Error<nvmem::device::Misuse>> {
        let next = self.last.take();
        self.last = Some(self.heap.alloc(Node { value, next })?);
        Ok(())
    }

    fn stored(&mut self) -> Option<u32> {
        self.last.as_ref()?.value(&self.heap).ok()
    }
}

static APP: Mutex<RefCell<Option<App>>> = Mutex::new(RefCell::new(None));

/// The brand without a marker can be taken once in a process; so this is a single test.
#[test]
fn a_heap_in_a_static() {
    let brand = Brand::take().unwrap();
    assert!(Brand::take().is_none());
    assert!(
        std::thread::spawn(|| Brand::take().is_none())
            .join()
            .unwrap()
    );
    let heap = Heap::open(brand, Fram::filled(0), ram(), Config::DEFAULT, |_| {
        Ok(Root {
            first: None,
            count: 1,
        })
    });
    let app = App {
        heap: heap.unwrap(),
        last: None,
    };
    critical_section::with(|cs| APP.borrow(cs).replace(Some(app)));
    // As it goes from one task to the other.
    let mut app = critical_section::with(|cs| APP.borrow(cs).take().unwrap());
    let app = std::thread::spawn(move || {
        app.push(7).unwrap();
        app.push(8).unwrap();
        app
    });
    let mut app = app.join().unwrap();
    assert_eq!(app.stored(), Some(8));
    let first = app.last.take();
    app.heap
        .root_handle()
        .replace_first(&app.heap, first)
        .unwrap();
    app.heap.root_handle().set_count(&app.heap, 2).unwrap();
    app.heap.persist().unwrap();
    app.heap.restore().unwrap();
    let audit = app.heap.audit().unwrap();
    assert_eq!((audit.reachable, audit.allocated), (3, 3));
}

static_brand!(
    /// A second heap's.
    Log
);

#[derive(Persist, Fields)]
#[repr(C)]
struct Entry<'h> {
    hour: u32,
    text: Blob<'h, Log>,
    before: Option<Own<'h, Entry<'h>, Log>>,
}

#[derive(Persist)]
#[repr(C)]
struct LogRoot<'h> {
    last: Option<Own<'h, Entry<'h>, Log>>,
    queue: Fifo<'h, Own<'h, Entry<'h>, Log>, Log>,
    series: Vector<'h, u32, 4, Log>,
    names: Map<'h, u8, Blob<'h, Log>, 2, Log>,
    tables: Chunked<'h, u16, 4, Log>,
}

type LogHeap<'h, S> = Heap<'h, LogRoot<'h>, S, JustInTime, Predict, Log>;

/// Everything that a heap has, of a heap with a marker, once with a local brand and then with the
/// static one.
fn fill<'h, S: nvmem::Medium>(heap: &LogHeap<'h, S>) -> Result<(), Error<S::Error>> {
    let text = Blob::alloc(heap, b"on")?;
    let entry = heap.alloc(Entry {
        hour: 1,
        text,
        before: None,
    })?;
    entry.set_hour(heap, entry.hour(heap)? + 1)?;
    let mut root = heap.root_mut()?;
    let before = root.last.replace(entry);
    root.queue
        .push(heap, before.unwrap())
        .map_err(|r| r.error)?;
    root.series.push(heap, 9).map_err(|r| r.error)?;
    let name = Blob::alloc(heap, b"boiler")?;
    let old = root.names.insert(heap, 1, name).map_err(|r| r.error)?;
    if let Some(old) = old {
        heap.discard(old)?;
    }
    root.tables.set(heap, 3, 5)?;
    Ok(())
}

fn open<'h, S: nvmem::Faithful>(
    brand: Brand<'h, Log>,
    nv: S,
    ram: &'h mut [u8],
) -> Result<LogHeap<'h, S>, OpenError<S::Error>> {
    Heap::open(brand, nv, ram, Config::DEFAULT, |heap| {
        let text = Blob::alloc(heap, b"off")?;
        Ok(LogRoot {
            last: Some(heap.alloc(Entry {
                hour: 0,
                text,
                before: None,
            })?),
            queue: Fifo::alloc(heap, 4)?,
            series: Vector::new(),
            names: Map::new(),
            tables: Chunked::alloc(heap, 1, |_| Ok([0; 4]))?,
        })
    })
}

#[test]
fn two_heaps_in_statics() {
    static_brand!(Settings);
    let settings = Settings::take().unwrap();
    let settings: Heap<'static, u32, Fram, JustInTime, Predict, Settings> =
        Heap::open(settings, Fram::filled(0), ram(), Config::DEFAULT, |_| Ok(5)).unwrap();
    let rate = settings.alloc(3u16).unwrap();

    let mut fram = Fram::filled(0);
    {
        let mut ram = [0; 1024];
        brand!(b);
        let mut heap = open(b, &mut fram, &mut ram).unwrap();
        fill(&heap).unwrap();
        heap.persist().unwrap();
    }
    let mut heap = open(Log::take().unwrap(), fram, ram()).unwrap();
    assert!(Log::take().is_none() && Settings::take().is_none());
    fill(&heap).unwrap();
    let before = heap.root_mut().unwrap().queue.pop(&heap).unwrap().unwrap();
    assert_eq!(before.hour(&heap).unwrap(), 0);
    heap.free(before).unwrap();
    let audit = heap.audit().unwrap();
    assert_eq!(audit.reachable, audit.allocated);
    assert_eq!(settings.read(&rate).unwrap(), 3);
}

/// A driver that calls back in the middle of an operation.
struct Hooked(Fram);

type HookedHeap = Heap<'static, [u8; 40], Hooked, JustInTime, Predict, Driven>;
static_brand!(Driven);

std::thread_local! {
    static HOOK: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

fn hook() {
    let hook = HOOK.with(|h| h.borrow_mut().take());
    if let Some(hook) = hook {
        hook();
    }
}

// SAFETY: a device in RAM.
unsafe impl nvmem::Faithful for Hooked {}
impl Medium for Hooked {
    type Error = nvmem::device::Misuse;
    const CONTRACT: nvmem::device::Contract = Fram::CONTRACT;
    fn capacity(&self) -> u32 {
        self.0.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Self::Error> {
        hook();
        self.0.read(at, buf)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        hook();
        self.0.write(at, bytes)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
        self.0.erase(from, to)
    }
}

/// The driver uses its own heap through a static, in the middle of an operation. Each operation is
/// refused, and nothing is damaged. Then it unwinds: the heap stays locked.
#[test]
fn the_driver_comes_back() {
    // Room for two of the objects.
    let ram = Box::leak(Box::new([0; 128]));
    let heap = Heap::open(
        Driven::take().unwrap(),
        Hooked(Fram::filled(0)),
        ram,
        Config::DEFAULT,
        |_| Ok([1; 40]),
    );
    let heap: &'static HookedHeap = Box::leak(Box::new(heap.unwrap()));
    let objects: &'static [Own<'static, [u8; 40], Driven>; 3] =
        Box::leak(Box::new([2, 3, 4].map(|v| heap.alloc([v; 40]).unwrap())));
    let [a, b, c] = objects;
    let held = heap.get(a).unwrap();
    let comes_back = move || {
        assert_eq!(heap.get(b).err(), Some(Error::Busy));
        assert_eq!(heap.get_mut(a).err(), Some(Error::Busy));
        assert_eq!(heap.alloc(5u32).unwrap_err().error, Error::Busy);
        assert_eq!(heap.root().err(), Some(Error::Busy));
        assert_eq!(heap.free_bytes(), Err(Error::Busy));
        assert_eq!(heap.stats(), vnv_heap::Stats::default());
        assert_eq!(*held, [2; 40]);
        // It stays held: the heap cannot be told now.
        drop(held);
    };
    HOOK.set(Some(Box::new(comes_back)));
    assert_eq!(heap.read(c).unwrap(), [4; 40]);
    assert!(HOOK.take().is_none());
    assert_eq!(heap.read(b).unwrap(), [3; 40]);
    assert_eq!(heap.read(a).unwrap(), [2; 40]);
    assert_eq!(heap.get_mut(a).err(), Some(Error::Busy));

    let held = heap.get(c).unwrap();
    HOOK.set(Some(Box::new(|| panic!("in the driver"))));
    let unwound =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| heap.alloc([5; 40]).is_ok()));
    assert!(unwound.is_err());
    assert_eq!(*held, [4; 40]);
    drop(held);
    assert_eq!(heap.read(b).err(), Some(Error::Busy));
    assert_eq!(heap.root().err(), Some(Error::Busy));
}
