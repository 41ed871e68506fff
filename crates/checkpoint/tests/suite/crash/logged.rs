//! A program whose memory holds the number of its checkpoint in separate cells, and flash for it.

use super::counting::{Counting, counted};
use super::nor::nor;
use super::support::{PROGRAM, Promise, restored_context, take_all};
use checkpoint::nvmem::device::{Contract, Medium};
use checkpoint::{Cost, Log, Maxima, Memory, Store, Work};
use powerfail::{Chip, World};
use std::cell::Cell;

/// Three cells of statics and heap, one of the stack. Not all of them change at each checkpoint.
pub struct State {
    statics: [u8; 40],
    heap: [u8; 32],
    stack: [u8; 32],
}

impl State {
    pub fn garbage() -> Self {
        State {
            statics: [0xA5; 40],
            heap: [0xA5; 32],
            stack: [0xA5; 32],
        }
    }

    /// `n` in the lower half; the upper half distinguishes attempts.
    pub fn of(context: u32) -> Self {
        let n = context & 0xFFFF;
        let mix =
            |x: u32, i: usize| (x.wrapping_mul(0x9E37_79B9).rotate_left(i as u32 * 5) >> 24) as u8;
        let mut s = State {
            statics: std::array::from_fn(|i| mix(context, i)),
            heap: std::array::from_fn(|i| mix(n / 2 + 1, i)),
            stack: std::array::from_fn(|i| mix(n / 3 + 77, i)),
        };
        s.statics[32..].fill(3);
        if n == 2 {
            s.heap = [0; 32];
        }
        s
    }

    pub fn memory(&mut self, n: u32) -> Memory<'_> {
        Memory::new(&mut self.statics, &mut self.heap, &mut self.stack)
            .heap_used(30)
            .stack_from(if n.is_multiple_of(2) { 5 } else { 9 })
    }

    #[track_caller]
    fn check(&self, context: u32) {
        let of = State::of(context);
        let from = if context & 1 == 0 { 5 } else { 9 };
        assert_eq!(self.statics, of.statics, "a mixture");
        assert_eq!(self.heap[..30], of.heap[..30], "a mixture");
        assert_eq!(self.heap[30..], [0xA5; 2], "not in use");
        assert_eq!(self.stack[from..], of.stack[from..], "a mixture");
        assert_eq!(self.stack[..from], [0xA5; 9][..from], "not in use");
    }
}

/// The most memory in use.
const MOST: Maxima = Maxima {
    statics: 40,
    heap: 32,
    heap_used: 30,
    stack: 32,
    stack_used: 27,
};

/// Takes checkpoints up to the `last` one. None of them, and no restore, costs more than its bound.
pub fn life<D: Medium, const CELL: usize>(nv: D, world: &World<'_, Promise>, last: u32) {
    let cost = Cost {
        operation: D::CONTRACT.write_size,
        ..Cost::STM32F0
    };
    let work = Cell::new(Work::default());
    let checkpoint = counted(Log::<D, 5, 40, CELL>::worst_case(&MOST, &cost));
    let restore = counted(Log::<D, 5, 40, CELL>::worst_restore(&MOST, &cost));
    let all = 0..nv.capacity();
    let inner = nv;
    let nv = Counting {
        inner,
        cost,
        work: &work,
    };
    let mut log = Log::<_, 5, 40, CELL>::open(nv, all, PROGRAM).expect("nothing but power cuts");
    let mut state = State::garbage();
    let context = restored_context(world, log.load(&mut state.memory(0)));
    if let Some(context) = context {
        state.check(context);
    }
    let first = context.map_or(0, |c| c & 0xFFFF);
    take_all(world, &work, [restore, checkpoint], first..last, |n| {
        // Each attempt has another context.
        let context = n | world.with(|p| p.boots) << 16;
        log.save(&State::of(context).memory(n), context)
    });
}

/// Like an STM32L1: a word holds a cell or a record, and two words fill a unit.
pub enum HalfPages {}
impl Chip for HalfPages {
    const CONTRACT: Contract = nor("half-pages", 128, 256, 0x00);
}

/// Units of several cells and records.
pub enum LargeUnits {}
impl Chip for LargeUnits {
    const CONTRACT: Contract = nor("large-units", 64, 1024, 0xFF);
}
