//! Cuts the power in programs that take checkpoints, in each mode and on each kind of medium: at every instant that matters, and again in the boot after.
//! Lines `key value`.

use checkpoint::nvmem::device::{Contract, EraseUnit, Medium, Torn};
use checkpoint::nvmem::{Buffered32, InOrder32};
use checkpoint::{
    Blocks, CopyIfChange, Error, Full, HeapTracker, Images, Memory, Mode, Split, Stack,
};
use powerfail::{
    Chip, Explore, Failure, Mapped, Media, Mram16, Simulated, SpiFram, Stm32l1HalfPage, Summary,
    World, explore,
};

/// What the outside was told, and what the device set out to do.
#[derive(Clone, Hash, Debug, Default)]
struct Promise {
    /// The last checkpoint that returned, or was restored.
    seen: u32,
    /// The last one that was begun.
    tried: u32,
    boots: u32,
}

const STATICS: usize = 9;
const HEAP: usize = 6;
const STACK: usize = 5;

struct State {
    statics: [u8; STATICS],
    heap: [u8; HEAP],
    stack: [u8; STACK],
}

impl State {
    /// What RAM holds after power-up.
    fn garbage() -> Self {
        State {
            statics: [0xA5; STATICS],
            heap: [0xA5; HEAP],
            stack: [0xA5; STACK],
        }
    }

    /// All of it follows from a number.
    fn of(context: u32) -> Self {
        let byte =
            |i: usize| (context.wrapping_mul(0x9E37_79B9).rotate_left(i as u32 * 5) >> 24) as u8;
        State {
            statics: std::array::from_fn(byte),
            heap: std::array::from_fn(|i| byte(i + STATICS)),
            stack: std::array::from_fn(|i| byte(i + STATICS + HEAP)),
        }
    }

    fn memory(&mut self) -> Memory<'_> {
        Memory::new(&mut self.statics, &mut self.heap, &mut self.stack)
            .heap_used(4)
            .stack_from(2)
    }
}

/// A heap whose blocks are all in use, or none: then of its bytes those that are not zero are saved, which is all that there is to restore, too.
struct All(bool);
impl Blocks for All {
    fn in_use(&self, _: u32) -> bool {
        self.0
    }
}

/// Checkpoints up to the `last` one; `heap` bytes of the heap come back.
fn life<D: Medium, M: Mode, const N: usize>(
    nv: D,
    world: &World<'_, Promise>,
    mode: &M,
    heap: usize,
    last: u32,
) {
    let all = 0..nv.capacity();
    let mut images = Images::<_, N>::open(nv, all, 7).expect("nothing but power cuts");
    world.update(|p| p.boots += 1);
    let mut state = State::garbage();
    let n = match images.restore(&mut state.memory()) {
        Ok(r) => {
            assert_eq!(r.damaged, 0, "no power cut damages an image");
            let of = State::of(r.context);
            assert_eq!(state.statics, of.statics, "a mixture");
            assert_eq!(state.heap[..heap], of.heap[..heap], "a mixture");
            assert_eq!(state.stack[2..], of.stack[2..], "a mixture");
            r.context & 0xFF
        }
        Err(Error::NoImage) => 0,
        Err(e) => panic!("nothing but power cuts, and {e}"),
    };
    let p = world.get();
    assert!(
        p.seen <= n && n <= p.tried,
        "checkpoint {n} is restored: {p:?}"
    );
    world.update(|p| p.seen = n);
    for n in n + 1..=last {
        // Each attempt is another one.
        let context = n | world.with(|p| p.boots) << 8;
        state = State::of(context);
        world.update(|p| p.tried = p.tried.max(n));
        images
            .checkpoint(mode, &state.memory(), context)
            .expect("nothing but power cuts");
        world.update(|p| p.seen = n);
    }
}

/// Few words, and an image in several erase units.
enum SmallUnits {}
impl Chip for SmallUnits {
    const CONTRACT: Contract = Contract {
        name: "small-units",
        read_size: 1,
        write_size: 16,
        unit: 1,
        torn: Torn::Unstable,
        erase: Some(EraseUnit {
            size: 32,
            erased: 0xFF,
            write_once: true,
            endurance: 0,
        }),
    };
}

type Found = Result<Summary, Failure>;

fn run<M: Media>(name: &'static str, e: Explore<M, Promise>) -> Found {
    let found = e.name(name).depth(2).threads(2).try_run();
    match &found {
        Ok(s) => eprintln!("{name}: {} cuts, {} boots", s.cuts, s.boots),
        Err(f) => eprintln!("{}", f.report()),
    }
    found
}

static IN_USE: All = All(true);
static FREE: All = All(false);

/// Each mode on one kind of medium, in `N` slots, up to the `LAST` checkpoint.
fn modes<M: Media, const N: usize, const LAST: u32>(
    out: &mut Vec<Found>,
    name: &'static str,
    blank: impl Fn() -> M,
) where
    for<'r> M::Nv<'r>: Medium,
{
    out.push(run(
        name,
        explore(blank(), |nv, w| life::<_, _, N>(nv, w, &Full, HEAP, LAST)),
    ));
    out.push(run(
        name,
        explore(blank(), |nv, w| life::<_, _, N>(nv, w, &Stack, 0, LAST)),
    ));
    out.push(run(
        name,
        explore(blank(), |nv, w| life::<_, _, N>(nv, w, &Split, 4, LAST)),
    ));
    out.push(run(
        name,
        explore(blank(), |nv, w| {
            life::<_, _, N>(nv, w, &HeapTracker(&IN_USE), HEAP, LAST)
        }),
    ));
    out.push(run(
        name,
        explore(blank(), |nv, w| {
            life::<_, _, N>(nv, w, &HeapTracker(&FREE), HEAP, LAST)
        }),
    ));
    out.push(run(
        name,
        explore(blank(), |nv, w| {
            life::<_, _, N>(nv, w, &CopyIfChange(Split), 4, LAST)
        }),
    ));
}

fn main() {
    let mut all = Vec::new();
    modes::<_, 2, 3>(&mut all, "mapped", || Mapped::<InOrder32>::new(192));
    modes::<_, 2, 2>(&mut all, "serial FRAM", || Simulated::<SpiFram>::new(192));
    modes::<_, 2, 2>(&mut all, "MRAM", || Simulated::<Mram16>::new(192));
    modes::<_, 3, 2>(&mut all, "flash, several units", || {
        Simulated::<SmallUnits>::new(3 * 128)
    });
    modes::<_, 3, 2>(&mut all, "flash, half pages", || {
        Simulated::<Stm32l1HalfPage>::new(3 * 512)
    });
    // Any part of what was written may be there: many states for each cut.
    let buffered = || Mapped::<Buffered32>::new(192);
    all.push(run(
        "buffered",
        explore(buffered(), |nv, w| life::<_, _, 2>(nv, w, &Split, 4, 2)),
    ));
    let mut sum = Summary::default();
    let mut failures = 0;
    for found in all {
        match found {
            Ok(s) => sum = sum + s,
            Err(_) => failures += 1,
        }
    }
    println!("checkpoint.cuts {}", sum.cuts);
    println!("checkpoint.boots {}", sum.boots);
    println!("checkpoint.failures {failures}");
}
