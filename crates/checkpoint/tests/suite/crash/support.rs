//! A program whose memory holds the number of its checkpoint, and its world.

use super::counting::{Counting, counted, within};
use super::nor::nor;
use checkpoint::nvmem::device::{Contract, Medium, Torn};
use checkpoint::{Bounded, Cost, Error, Images, Maxima, Memory, Restored, Work};
use powerfail::{Chip, World};
use std::cell::Cell;
use std::fmt::Debug;
use std::ops::Range;

/// The world: finished and begun checkpoints.
#[derive(Clone, Hash, Debug, Default)]
pub struct Promise {
    /// The last checkpoint that returned, or was restored.
    pub seen: u32,
    /// The last one that was begun.
    pub tried: u32,
    pub boots: u32,
}

impl Promise {
    /// Notes that a boot restored checkpoint `n`.
    #[track_caller]
    pub fn found(world: &World<'_, Self>, n: u32) {
        let p = world.get();
        assert!(
            p.seen <= n && n <= p.tried,
            "checkpoint {n} is restored, {} was seen, {} tried",
            p.seen,
            p.tried
        );
        world.update(|p| p.seen = n);
    }

    /// Takes checkpoint `n` with `take`. It is valid when that returns.
    pub fn taken(world: &World<'_, Self>, n: u32, take: impl FnOnce()) {
        world.update(|p| p.tried = p.tried.max(n));
        take();
        world.update(|p| p.seen = n);
    }
}

pub struct State {
    pub statics: [u8; 9],
    pub heap: [u8; 6],
    pub stack: [u8; 5],
}

impl State {
    /// The content of RAM after power-up.
    pub fn garbage() -> Self {
        State {
            statics: [0xA5; 9],
            heap: [0xA5; 6],
            stack: [0xA5; 5],
        }
    }

    /// Fills memory with content derived from a number.
    pub fn of(context: u32) -> Self {
        // In this kind of run memory does not change.
        let context = if context & STILL == 0 { context } else { 0 };
        let byte =
            |i: usize| (context.wrapping_mul(0x9E37_79B9).rotate_left(i as u32 * 5) >> 24) as u8;
        State {
            statics: std::array::from_fn(byte),
            heap: std::array::from_fn(|i| byte(i + 9)),
            stack: std::array::from_fn(|i| byte(i + 15)),
        }
    }

    pub fn memory(&mut self) -> Memory<'_> {
        Memory::new(&mut self.statics, &mut self.heap, &mut self.stack)
            .heap_used(4)
            .stack_from(2)
    }

    /// Whether it equals what an image of `Split` restores.
    #[track_caller]
    pub fn check(&self, context: u32) {
        self.holds(context, 4);
    }

    /// Whether it equals what an image with so many bytes of the heap restores.
    #[track_caller]
    pub fn holds(&self, context: u32, heap: usize) {
        let of = State::of(context);
        assert_eq!(self.statics, of.statics, "a mixture");
        assert_eq!(self.heap[..heap], of.heap[..heap], "a mixture");
        assert_eq!(self.stack[2..], of.stack[2..], "a mixture");
    }
}

/// A flag in the context: memory is the same at each checkpoint.
pub const STILL: u32 = 1 << 31;

pub const PROGRAM: u64 = 0x1234_5678_9ABC_DEF0;

/// The most memory in use.
const MOST: Maxima = Maxima {
    statics: 9,
    heap: 6,
    heap_used: 4,
    stack: 5,
    stack_used: 3,
};

/// Takes checkpoints up to the `last` one. None of them, and no restore, costs more than its bound.
pub fn life<D: Medium, M: Bounded, const N: usize>(
    nv: D,
    world: &World<'_, Promise>,
    mode: &M,
    last: u32,
) {
    lives::<_, _, N>(nv, world, mode, last, 0, 4)
}

/// The same, with this kind of context, in a mode that saves so many bytes of the heap.
pub fn lives<D: Medium, M: Bounded, const N: usize>(
    nv: D,
    world: &World<'_, Promise>,
    mode: &M,
    last: u32,
    kind: u32,
    heap: usize,
) {
    let cost = Cost {
        operation: D::CONTRACT.write_size,
        ..Cost::STM32F0
    };
    let work = Cell::new(Work::default());
    let checkpoint = counted(Images::<D, N>::worst_case::<M>(&MOST, &cost));
    let mut restore = counted(Images::<D, N>::worst_restore::<M>(&MOST, &cost));
    if D::CONTRACT.torn == Torn::Unstable {
        // All but the last may read differently when read again.
        let once = restore;
        (1..N).for_each(|_| restore = restore.and(once));
    }
    let all = 0..nv.capacity();
    let inner = nv;
    let nv = Counting {
        inner,
        cost,
        work: &work,
    };
    let mut images = Images::<_, N>::open(nv, all, PROGRAM).expect("nothing but power cuts");
    let mut state = State::garbage();
    let restored = images.restore(&mut state.memory());
    let context = restored_context(world, restored);
    if let Some(context) = context {
        state.holds(context, heap);
    }
    let first = context.map_or(0, |c| c & 0xFF);
    take_all(world, &work, [restore, checkpoint], first..last, |n| {
        // Each attempt has another context.
        let context = n | kind | world.with(|p| p.boots) << 8;
        images.checkpoint(mode, &State::of(context).memory(), context)
    });
}

/// The context of what a boot restored; `None` at the first start.
pub fn restored_context<E: Debug>(
    world: &World<'_, Promise>,
    restored: Result<Restored, Error<E>>,
) -> Option<u32> {
    world.update(|p| p.boots += 1);
    match restored {
        Ok(r) => {
            assert_eq!(r.damaged, 0, "no power cut damages a checkpoint");
            Some(r.context)
        }
        Err(Error::NoImage) => None,
        Err(e) => panic!("nothing but power cuts, and {e}"),
    }
}

/// Takes the checkpoints after the first one of this range, which was restored. Neither the restore
/// nor any checkpoint costs more than its bound.
pub fn take_all<E: Debug>(
    world: &World<'_, Promise>,
    work: &Cell<Work>,
    [restore, checkpoint]: [Work; 2],
    numbers: Range<u32>,
    mut take: impl FnMut(u32) -> Result<(), Error<E>>,
) {
    let bounded = |bound: &Work| {
        let seen = work.take();
        assert!(within(&seen, bound), "{seen:?}, at most {bound:?}");
    };
    bounded(&restore);
    Promise::found(world, numbers.start);
    for n in numbers.start + 1..=numbers.end {
        Promise::taken(world, n, || take(n).expect("nothing but power cuts"));
        bounded(&checkpoint);
    }
}

/// Few words, and an image in several erase units.
pub enum SmallUnits {}
impl Chip for SmallUnits {
    const CONTRACT: Contract = nor("small-units", 16, 32, 0xFF);
}

/// An image with its marker in one erase unit.
pub enum OneUnit {}
impl Chip for OneUnit {
    const CONTRACT: Contract = nor("one-unit", 16, 128, 0x00);
}
