//! A heap on NOR flash, through `nvmem`'s wear levelling: both promises under power cuts, with torn
//! words that read differently each time and interrupted erases.

use crate::crash::support::{Known, NARROW, Op, Save, program};
use nvmem::device::{Contract, EraseUnit};
use nvmem::level::WearLevelled;
use nvmem::ram::RamNor;
use nvmem::{Faithful, Medium, Persist};
use powerfail::{Chip, Simulated, SpiNor, World, explore_with};
use vnv_heap::{
    Config, Error, Heap, JustInTime, OpenError, Own, Promise, Snapshot, Unrooted, brand,
};

/// A small flash with this program unit in bytes.
enum Small<const WORD: usize> {}
impl<const WORD: usize> Chip for Small<WORD> {
    const CONTRACT: Contract = Contract {
        erase: Some(EraseUnit {
            size: UNIT as u32,
            erased: 0xFF,
            write_once: true,
            endurance: 0,
        }),
        write_size: WORD as u32,
        ..SpiNor::CONTRACT
    };
    const PAGE: u32 = WORD as u32;
}

const UNIT: usize = 1024;
const UNITS: usize = 8;

/// The flash as bytes.
fn bytes<D: Medium<Error: core::fmt::Debug>, const PAGE: usize>(
    flash: D,
    table: &mut [u16],
) -> WearLevelled<'_, D, PAGE> {
    match WearLevelled::open(flash, table) {
        Ok(bytes) => bytes,
        Err(e) => panic!("{e}"),
    }
}

/// From a blank flash on: one cut.
fn from_the_start<P: Save>() {
    let ops = vec![Op::Push(1), Op::Blob(2), Op::Pop];
    let flash = Simulated::<Small<32>>::new(UNITS * UNIT);
    let s = explore_with(ops, flash, |nv, w: &World<Known>, ops| {
        let mut table = [0; 128];
        program::<P, _>(bytes::<_, 88>(nv, &mut table), NARROW, w, ops)
    })
    .run();
    println!("{s}");
    assert!(s.partial || s.boots > 50, "{s}");
}

/// The data of a device: a count, and an object whose bytes all equal the count.
#[derive(Persist)]
#[repr(C)]
struct Counted<'h> {
    n: u32,
    data: Option<Own<'h, [u8; 20]>>,
}

type Counter<'h, S, P> = Heap<'h, Counted<'h>, S, P>;

const FEW: Config = Config {
    dirty_limit: 60,
    burst: 32,
    objects: 3,
    max_pins: 2,
    budget: None,
};

/// How a counter is saved.
trait Keep: Promise + Sized {
    fn keep<S: Medium>(heap: &mut Counter<'_, S, Self>) -> Result<(), Error<S::Error>>;
}
impl Keep for JustInTime {
    fn keep<S: Medium>(heap: &mut Counter<'_, S, Self>) -> Result<(), Error<S::Error>> {
        heap.persist()?;
        heap.restore()
    }
}
impl Keep for Snapshot {
    fn keep<S: Medium>(heap: &mut Counter<'_, S, Self>) -> Result<(), Error<S::Error>> {
        heap.commit()
    }
}

/// The world's knowledge of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Count {
    saved: u32,
    /// The next one is begun.
    begun: bool,
}

/// Checks the stored count, then counts up to `last`, changing another object each time.
fn count<P: Keep, S: Faithful>(
    nv: S,
    last: u32,
    replaced: bool,
    known: Count,
    mut tell: impl FnMut(Count),
) {
    let mut ram = [0xA5; 96];
    brand!(b);
    let init = |_: &Heap<'_, Unrooted, S, P>| Ok(Counted { n: 0, data: None });
    let mut heap = match Counter::<S, P>::open(b, nv, &mut ram, FEW, init) {
        Ok(heap) => heap,
        // How life goes on then, is explored on bytes.
        Err(OpenError::Interrupted) => return assert!(!P::SNAPSHOT && known.begun, "{known:?}"),
        Err(e) => panic!("{e}"),
    };
    let audit = heap.audit().unwrap();
    assert_eq!(audit.reachable, audit.allocated);
    let mut n = heap.root().unwrap().n;
    assert!(
        n == known.saved || known.begun && n == known.saved + 1,
        "{n} found, {known:?}"
    );
    if let Some(data) = &heap.root().unwrap().data {
        let data = heap.read(data).unwrap();
        assert!(data[0] <= n as u8 && data == [data[0]; 20]);
    }
    while n < last {
        let saved = n;
        tell(Count { saved, begun: true });
        n += 1;
        heap.root_mut().unwrap().n = n;
        if replaced {
            let data = heap.alloc([n as u8; 20]).unwrap();
            let old = heap.root_mut().unwrap().data.replace(data);
            old.map_or(Ok(()), |old| heap.free(old)).unwrap();
        }
        P::keep(&mut heap).unwrap();
        tell(Count {
            saved: n,
            begun: false,
        });
    }
}

/// Two cuts take minutes: long campaigns judge them, and this test only one.
fn depth() -> u32 {
    let asked = std::env::var("POWERFAIL_DEPTH").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(1).min(2)
}

/// A flash that is in use, with blocks that are cleaned: one operation is cut everywhere, in long
/// campaigns the boot after it again.
fn in_use<P: Keep>(saved: u32) {
    // Under Miri it takes minutes until all units are in use.
    let saved = if cfg!(miri) { saved / 8 } else { saved };
    let mut flash = RamNor::<UNITS, UNIT, 64>::new();
    let mut table = [0; 128];
    let nv = bytes::<_, 56>(&mut flash, &mut table);
    count::<P, _>(nv, saved, true, Count::default(), |_| ());
    let used = flash.wear().iter().all(|n| *n > 1);
    assert!(used || cfg!(miri), "{:?}", flash.wear());
    let flash = Simulated::<Small<64>>::with_image(flash.bytes().to_vec());
    let s = explore_with(saved + 1, flash, |nv, w: &World<Count>, last| {
        let mut table = [0; 128];
        let nv = bytes::<_, 56>(nv, &mut table);
        count::<P, _>(nv, *last, false, w.get(), |k| w.set(k))
    })
    .world(Count {
        saved,
        begun: false,
    })
    .depth(depth())
    .max_depth(2)
    .run();
    println!("{s}");
    assert!(s.partial || s.boots > 50, "{s}");
}

#[test]
fn just_in_time() {
    from_the_start::<JustInTime>();
}

#[test]
fn snapshot() {
    from_the_start::<Snapshot>();
}

#[test]
fn just_in_time_on_a_used_flash() {
    in_use::<JustInTime>(80);
}

#[test]
fn snapshot_on_a_used_flash() {
    in_use::<Snapshot>(80);
}
