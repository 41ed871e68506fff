//! The program on a device: start, checkpoints, result. What is different from a program without checkpoints is in [`run`].

mod board;

pub use board::{Flash, images, log};

use crate::{Found, search};
use board::Event;
use checkpoint::{Checkpointer, Returned, Store, TrackedHeap};
use core::fmt::Write;
use core::mem::MaybeUninit;
use cortex_m::peripheral::SCB;
use embedded_alloc::LlffHeap;

unsafe extern "C" {
    static mut __sheap: u8;
    static mut _heap_end: u8;
}

/// The program's allocator, on which a checkpoint finds out what is in use; 16 KiB are 128 blocks.
#[global_allocator]
pub static HEAP: TrackedHeap<LlffHeap, 128> =
    TrackedHeap::new(LlffHeap::empty(), &raw const __sheap);

/// The allocator merges what is free: behind all that is in use there is one hole, and it starts with its size and a link, one word further on behind an allocation of less than two. Without
/// them it would not know after a restore what is free.
const HOLE: usize = 3 * size_of::<usize>();

/// A program whose checkpoints are kept in this way. The checkpointer lies where no image reaches.
#[macro_export]
macro_rules! program {
    ($store:ty, $open:expr) => {
        #[unsafe(link_section = ".uninit.checkpointer")]
        static mut PLACE: core::mem::MaybeUninit<checkpoint::Checkpointer<$store>> =
            core::mem::MaybeUninit::uninit();

        #[cortex_m_rt::entry]
        fn main() -> ! {
            // SAFETY: main runs once.
            let place = unsafe { &mut *(&raw mut PLACE) };
            $crate::device::run(place, $open)
        }
    };
}

/// The program.
pub fn run<S: Store>(place: &'static mut MaybeUninit<Checkpointer<S>>, store: S) -> ! {
    // SAFETY: the symbols of cortex-m-rt and of memory.x; this is the only stack.
    let segments = unsafe {
        checkpoint::segments!(statics: __sdata..__ebss, heap: __sheap.._heap_end, stack: _stack_end.._stack_start)
    };
    let segments = segments.heap_used(|| HEAP.used() + HOLE);
    let ck = Checkpointer::init(place, store, segments, SCB::sys_reset);

    // The first of the two calls. It does not return if there is something to return to.
    // SAFETY: no interrupt is enabled, and the images are this build's: the emulator starts each program with a blank flash.
    let why = unsafe { ck.restore() };
    board::event(Event::Started, 0);
    if !matches!(why, checkpoint::Error::NoImage) {
        board::fail(&why)
    }
    start_heap();

    let size = board::asked_for();
    let found = search(size, |placed| {
        // The second of the two calls. It returns after each restore, too.
        // SAFETY: no DMA, no interrupts.
        match unsafe { ck.checkpoint() } {
            Ok(Returned::Taken) => board::event(Event::Taken, placed),
            Ok(Returned::Restored(_)) => board::event(Event::Restored, placed),
            Err(e) => board::fail(&e),
        }
    });
    say(size, &found);
    board::event(Event::Finished, 0);
    cortex_m::asm::udf()
}

/// Once in the program's life: after a restore the heap is what it was.
fn start_heap() {
    let (start, end) = (&raw mut __sheap, &raw mut _heap_end);
    let bytes = end.addr() - start.addr();
    // SAFETY: nothing is allocated yet. What was never used is zero, and costs the modes that look nothing.
    unsafe {
        start.write_bytes(0, bytes);
        HEAP.inner().init(start.addr(), bytes);
    }
}

fn say(size: u8, found: &Found) {
    let mut out = board::Console;
    let (solutions, different) = (found.solutions, found.different.len());
    // The console takes everything.
    let _ = writeln!(
        out,
        "{size} queens: {solutions} solutions, {different} of them different"
    );
    for board in &found.different {
        for column in board {
            let _ = write!(out, "{:x}", column);
        }
        let _ = writeln!(out);
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    board::fail(info)
}
