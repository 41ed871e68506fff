//! What the heap's operations cost: measured sections, the last of two runs of each; and what it
//! takes of a 32-bit machine's RAM.

use crate::abi::figure;
use crate::abi::section;
use crate::heap::Buffer;
use crate::{Group, Mapped, Scenario, Scene, check, ok};
use core::hint::black_box;
use nvmem::Medium;
use nvmem::device::Misuse;
#[cfg(target_arch = "riscv32")]
use nvmem::ram::RamFram;
#[cfg(target_arch = "riscv32")]
use vnv_heap::Own;
use vnv_heap::{Config, Heap, JustInTime, OpenError, Promise, Snapshot, brand};

/// What it costs with a save just in time.
pub const fn group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "heap-costs",
            primitive: "vnv-heap",
            scenarios: &[
                Scenario::measuring("measure", BYTES, measured::<M, JustInTime>),
                Scenario::measuring("room_32", 16, |s| room(s, figure::HEAP_RESIDENT_32)),
                Scenario::measuring("room_256", 16, |s| room(s, figure::HEAP_RESIDENT_256)),
                Scenario::measuring("room_32_in_8_kib", 16, |s| {
                    room(s, figure::HEAP_RESIDENT_32_IN_8_KIB)
                }),
            ],
        }
    }
}

/// What it costs with snapshots.
pub const fn snapshot_group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "heap-snapshot-costs",
            primitive: "vnv-heap",
            scenarios: &[Scenario::measuring(
                "measure_snapshot",
                BYTES,
                measured::<M, Snapshot>,
            )],
        }
    }
}

const BYTES: usize = 1024;
/// Room for one object of 256 bytes.
const RAM: usize = 256 + 8 + 16;
const CONFIG: Config = Config {
    dirty_limit: 2048,
    burst: 256,
    objects: 16,
    max_pins: 4,
    budget: None,
};

type Error = vnv_heap::Error<Misuse>;
type CostHeap<'h, S, P> = Heap<'h, u32, S, P>;

/// What is measured of a promise.
trait Measured: Promise + Sized {
    const FORMAT: u16;
    const OPEN: u16;
    fn operations<M: Mapped, S: Medium<Error = Misuse>>(
        scene: &Scene<'_, M>,
        heap: &mut CostHeap<'_, S, Self>,
    ) -> Result<(), Error>;
}

impl Measured for JustInTime {
    const FORMAT: u16 = section::HEAP_FORMAT;
    const OPEN: u16 = section::HEAP_OPEN;

    fn operations<M: Mapped, S: Medium<Error = Misuse>>(
        scene: &Scene<'_, M>,
        heap: &mut CostHeap<'_, S, Self>,
    ) -> Result<(), Error> {
        for _ in 0..2 {
            let x = black_box(7);
            let small = scene.measure(section::HEAP_ALLOC_32, || heap.alloc([x; 8]))?;
            let read = scene.measure(section::HEAP_GET, || heap.get(&small).map(|v| v[3]))?;
            check!(scene, read == 7);
            scene.measure(section::HEAP_GET_MUT, || {
                heap.get_mut(&small).map(|mut v| v[3] = x + 1)
            })?;
            // One object is dirty.
            scene.measure(section::HEAP_PERSIST_32, || heap.persist())?;
            scene.measure(section::HEAP_RESTORE, || heap.restore())?;
            check!(scene, heap.read(&small)? == [7, 7, 7, 8, 7, 7, 7, 7]);
            scene.measure(section::HEAP_FREE_32, || heap.free(small))?;
            // There is room for one of them.
            let first = heap.alloc([1u8; 256])?;
            let second = heap.alloc([2u8; 256])?;
            heap.get_mut(&first)?[0] = 3;
            scene.measure(section::HEAP_EVICT_256, || {
                heap.get_mut(&second).map(|mut v| v[0] = 4)
            })?;
            check!(scene, heap.get(&first)?[..2] == [3, 1]);
            check!(scene, heap.get(&second)?[..2] == [4, 2]);
            heap.free(first)?;
            heap.free(second)?;
        }
        for _ in 0..2 {
            misses(scene, heap)?;
        }
        heap.persist()?;
        heap.restore()
    }
}

/// Gets of an object that is not resident, for which another one must leave RAM.
fn misses<M: Mapped, S: Medium<Error = Misuse>>(
    scene: &Scene<'_, M>,
    heap: &mut CostHeap<'_, S, JustInTime>,
) -> Result<(), Error> {
    let small = heap.alloc([6u32; 8])?;
    let large = heap.alloc([5u8; 256])?;
    heap.persist()?;
    // A restore empties the RAM.
    heap.restore()?;
    for section in [section::HEAP_MISS_CLEAN, section::HEAP_MISS_DIRTY] {
        let dirty = section == section::HEAP_MISS_DIRTY;
        if dirty {
            heap.get_mut(&large)?[0] = 4;
        } else {
            check!(scene, heap.get(&large)?[0] == 5);
        }
        let before = heap.stats();
        let read = scene.measure(section, || heap.get(&small).map(|v| v[3]))?;
        check!(scene, read == 6);
        let after = heap.stats();
        check!(scene, after.page_ins == before.page_ins + 1);
        check!(
            scene,
            after.write_backs == before.write_backs + u32::from(dirty)
        );
    }
    check!(scene, heap.get(&large)?[..2] == [4, 5]);
    heap.free(small)?;
    heap.free(large)?;
    Ok(())
}

impl Measured for Snapshot {
    const FORMAT: u16 = section::HEAP_FORMAT_SNAPSHOT;
    const OPEN: u16 = section::HEAP_OPEN_SNAPSHOT;

    fn operations<M: Mapped, S: Medium<Error = Misuse>>(
        scene: &Scene<'_, M>,
        heap: &mut CostHeap<'_, S, Self>,
    ) -> Result<(), Error> {
        let small = heap.alloc([7u32; 8])?;
        heap.commit()?;
        for _ in 0..2 {
            heap.update(&small, |v| v[3] += 1)?;
            scene.measure(section::HEAP_COMMIT_32, || heap.commit())?;
        }
        check!(scene, heap.get(&small)?[3] == 9);
        Ok(())
    }
}

fn measured<M: Mapped, P: Measured>(scene: &mut Scene<'_, M>) {
    let mut region = scene.region();
    let mut format = false;
    let mut opened = 0;
    // What was interrupted is formatted; then all is opened once more.
    while opened < 2 {
        let mut ram = Buffer::<RAM>::new();
        let ram = ram.bytes();
        brand!(b);
        scene.measure(section::EMPTY, || ());
        let heap = if format {
            CostHeap::<_, P>::format(b, &mut region, ram, CONFIG, |_| Ok(1))
        } else {
            let part = if opened == 0 { P::FORMAT } else { P::OPEN };
            scene.measure(part, || {
                CostHeap::<_, P>::open(b, &mut region, ram, CONFIG, |_| Ok(1))
            })
        };
        if !P::SNAPSHOT && matches!(heap, Err(OpenError::Interrupted)) {
            check!(scene, !format);
            format = true;
            continue;
        }
        format = false;
        let mut heap = ok!(scene, heap);
        ok!(scene, P::operations(scene, &mut heap));
        opened += 1;
    }
}

/// How many bytes of RAM a heap is given, for its own variable and its buffer.
pub const TAKEN: usize = 4096;

/// What there is room for in 4 KiB of RAM, the heap itself included, on the machine that stands for
/// those of 32 bits. The medium lies in RAM.
fn room<M: Mapped>(scene: &mut Scene<'_, M>, number: u16) {
    let region = scene.region();
    // SAFETY: the region's first unit, of which nothing is lent.
    unsafe { region.store(0, 1) };
    #[cfg(target_arch = "riscv32")]
    {
        const SELF: usize =
            size_of::<Heap<'static, u32, Fram<'static>, JustInTime>>() - size_of::<Fram<'static>>();
        scene.figure(figure::HEAP_BYTES, SELF as u16);
        scene.figure(
            figure::HEAP_HANDLE_BYTES,
            size_of::<Option<Own<'static, [u8; 32]>>>() as u16,
        );
        let found = match number {
            figure::HEAP_RESIDENT_32 => resident::<32>(TAKEN - SELF),
            figure::HEAP_RESIDENT_256 => resident::<256>(TAKEN - SELF),
            // Of twice as much, so that what is there once does not count.
            _ => resident::<32>(2 * TAKEN - SELF),
        };
        scene.figure(number, ok!(scene, found));
    }
    let _ = number;
}

#[cfg(target_arch = "riscv32")]
type Fram<'a> = &'a mut RamFram<FRAM>;
#[cfg(target_arch = "riscv32")]
const FRAM: usize = 12 * 1024;
/// So often all objects are looked at, unless no load is left before.
#[cfg(target_arch = "riscv32")]
const ROUNDS: usize = 600;

/// How many objects of `N` bytes are resident at once in a buffer of so many bytes, beside the
/// root: as many as are found again without a load.
#[cfg(target_arch = "riscv32")]
fn resident<const N: usize>(bytes: usize) -> Result<u16, OpenError<Misuse>> {
    const MOST: usize = 240;
    let mut fram = RamFram::<FRAM>::filled(0);
    let mut ram = Buffer::<{ 2 * TAKEN }>::new();
    let Some(ram) = ram.bytes().get_mut(..bytes / 8 * 8) else {
        return Err(OpenError::RamTooSmall {
            needed: bytes as u32,
        });
    };
    brand!(b);
    let config = Config {
        dirty_limit: 1 << 15,
        objects: MOST as u16,
        ..CONFIG
    };
    let heap = Heap::<u32, _, JustInTime>::open(b, &mut fram, ram, config, |_| Ok(1))?;
    let mut all = [const { None }; MOST];
    let mut found = 0;
    for i in 0..(bytes / N + 1).min(MOST - 2) {
        all[i] = Some(heap.alloc([i as u8; N]).map_err(|r| r.error)?);
        if i < bytes / (N + N / 4 + 16) {
            continue;
        }
        // As many of them as are found again and again without a load, once the policy knows them
        // and what nobody uses has left.
        let mut settled = false;
        for _ in 0..ROUNDS {
            let page_ins = heap.stats().page_ins;
            for own in all.iter().flatten() {
                drop(heap.get(own)?);
            }
            if heap.stats().page_ins == page_ins {
                settled = true;
                break;
            }
        }
        if !settled {
            break;
        }
        found = i as u16 + 1;
    }
    Ok(found)
}
