//! Cuts the power in programs on the heap: at every byte that goes to the medium, and again at
//! every byte of the boot after. Both promises. Lines `key value`.

use heap_eval::on_heap::{bytes, ram, sure};
use powerfail::{Device, Failure, Simulated, SpiFram, Summary, World, explore};
use vnv_heap::nvmem::Persist;
use vnv_heap::{Config, Heap, JustInTime, OpenError, Own, Predict, Promise, Snapshot};

/// Objects that the root may own.
const SLOTS: usize = 3;
/// The version that is the last.
const LAST: u32 = 12;

/// Bytes of the medium, and of RAM: less than all the objects need.
const MEDIUM: usize = 1024;
const RAM: usize = 144;

const CONFIG: Config = Config {
    dirty_limit: 96,
    burst: 16,
    objects: 8,
    max_pins: 4,
    ..Config::DEFAULT
};

/// Every byte is that of the version which wrote it last.
type Blob = [u8; 32];

#[derive(Persist)]
#[repr(C)]
struct Root<'h> {
    slots: [Option<Own<'h, Blob>>; SLOTS],
    spare: u16,
    version: u32,
}

type Store<'h, 'r, P> = Heap<'h, Root<'h>, Device<'r, SpiFram>, P, Predict>;

/// What version `v` does to which slot.
fn slot(v: u32) -> usize {
    v as usize % SLOTS
}

/// What a slot holds in version `v`: a blob is made, changed, freed, made, …
fn expected(v: u32, i: usize) -> Option<u8> {
    let turns: Vec<u32> = (1..=v).filter(|v| slot(*v) == i).collect();
    let last = *turns.last()?;
    (!turns.len().is_multiple_of(3)).then_some(last as u8)
}

fn change<P: Promise>(heap: &Store<'_, '_, P>, v: u32) {
    let mut root = sure(heap.root_mut());
    let i = slot(v);
    root.slots[i] = match (root.slots[i].take(), expected(v, i)) {
        (None, Some(fill)) => Some(sure(heap.alloc([fill; 32]).map_err(|r| r.error))),
        (Some(own), Some(fill)) => {
            sure(heap.get_mut(&own)).fill(fill);
            Some(own)
        }
        (own, None) => {
            own.into_iter()
                .for_each(|own| sure(heap.free(own).map_err(|r| r.error)));
            None
        }
    };
    root.version = v;
}

/// The version that the heap is of, all of it.
fn version<P: Promise>(heap: &Store<'_, '_, P>) -> u32 {
    let root = sure(heap.root());
    let v = root.version;
    for (i, own) in root.slots.iter().enumerate() {
        let fill = own.as_ref().map(|own| {
            let blob = sure(heap.get(own));
            assert!(
                blob.iter().all(|b| *b == blob[0]),
                "slot {i} is a mixture: {blob:?}"
            );
            blob[0]
        });
        assert_eq!(fill, expected(v, i), "slot {i} of version {v}");
    }
    v
}

fn blank<'h>() -> Root<'h> {
    Root {
        slots: [const { None }; SLOTS],
        spare: 0,
        version: 0,
    }
}

/// What was promised: the version, and whether the next one may be there instead.
type Promised = (u32, bool);

fn snapshot(nv: Device<'_, SpiFram>, world: &World<'_, Promised>) {
    let mut buffer = ram(RAM);
    vnv_heap::brand!(b);
    let mut heap: Store<'_, '_, Snapshot> =
        sure(Heap::open(b, nv, bytes(&mut buffer), CONFIG, |_| {
            Ok(blank())
        }));
    let mut v = version(&heap);
    let (promised, or_next) = world.get();
    assert!(
        v == promised || or_next && v == promised + 1,
        "{v} instead of {promised}"
    );
    let audit = sure(heap.audit());
    assert_eq!(audit.allocated, audit.reachable, "objects leaked");
    while v < LAST {
        v += 1;
        change(&heap, v);
        world.set((v - 1, true));
        sure(heap.commit());
        world.set((v, false));
    }
}

/// What was promised just in time.
#[derive(Debug, Clone, Copy, Default, Hash, PartialEq, Eq)]
enum Saved {
    /// Nothing was ever changed: blank, or freshly formatted.
    #[default]
    Nothing,
    /// This version is being saved.
    Saving(u32),
    /// It is saved.
    Version(u32),
    /// Something changed since this one was saved, in RAM at least.
    Changed(u32),
}

fn just_in_time(nv: Device<'_, SpiFram>, world: &World<'_, Saved>) {
    let mut buffer = ram(RAM);
    let mut nv = nv;
    let opened = {
        vnv_heap::brand!(b);
        let heap = Heap::<Root<'_>, _, JustInTime, Predict>::open(
            b,
            &mut nv,
            bytes(&mut buffer),
            CONFIG,
            |_| Ok(blank()),
        );
        match heap {
            Ok(_) => true,
            Err(OpenError::Interrupted) => false,
            Err(e) => panic!("{e:?}"),
        }
    };
    let saved = world.get();
    assert!(
        opened || !matches!(saved, Saved::Version(_)),
        "{saved:?} was lost"
    );
    vnv_heap::brand!(b);
    let ram = bytes(&mut buffer);
    let heap = match opened {
        true => Heap::open(b, nv, ram, CONFIG, |_| Ok(blank())),
        // A new life.
        false => {
            world.set(Saved::Nothing);
            Heap::format(b, nv, ram, CONFIG, |_| Ok(blank()))
        }
    };
    let mut heap: Store<'_, '_, JustInTime> = sure(heap);
    let mut v = version(&heap);
    match world.get() {
        Saved::Nothing => assert_eq!(v, 0),
        Saved::Version(s) | Saved::Changed(s) => assert_eq!(v, s, "not the version that was saved"),
        Saved::Saving(s) => assert_eq!(v, s, "what was saved before the change"),
    }
    while v < LAST {
        v += 1;
        world.set(Saved::Changed(v - 1));
        change(&heap, v);
        world.set(Saved::Saving(v));
        sure(heap.persist());
        world.set(Saved::Version(v));
        sure(heap.restore());
    }
}

fn main() {
    let medium = || Simulated::<SpiFram>::new(MEDIUM);
    let of_snapshot = explore(medium(), |nv, w: &World<Promised>| snapshot(nv, w));
    let of_just_in_time = explore(medium(), |nv, w: &World<Saved>| just_in_time(nv, w));
    let runs: [Result<Summary, Failure>; 2] = [
        of_snapshot
            .name("heap_snapshot")
            .depth(2)
            .threads(2)
            .try_run(),
        of_just_in_time
            .name("heap_just_in_time")
            .depth(2)
            .threads(2)
            .try_run(),
    ];
    let mut sum = Summary::default();
    let mut failures = 0;
    for run in runs {
        match run {
            Ok(s) => {
                eprintln!("{} cuts, {} boots", s.cuts, s.boots);
                sum = sum + s;
            }
            Err(f) => {
                eprintln!("{}", f.report());
                failures += 1;
            }
        }
    }
    println!("heap.cuts {}", sum.cuts);
    println!("heap.boots {}", sum.boots);
    println!("heap.failures {failures}");
}
