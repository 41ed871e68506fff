//! The program on a device: start, checkpoints, result. [`run`] contains everything that a program
//! without checkpoints does not need.

mod board;

pub use board::{Flash, images, log};

use crate::{SearchResult, search};
use board::Event;
use checkpoint::{Checkpointer, Outcome, Store, TrackedHeap};
use core::fmt::Write;
use core::mem::MaybeUninit;
use cortex_m::peripheral::SCB;
use embedded_alloc::LlffHeap;

unsafe extern "C" {
    static mut __sheap: u8;
    static mut _heap_end: u8;
}

/// The program's allocator, which tracks blocks in use for checkpoints; 16 KiB are 128 blocks.
#[global_allocator]
pub static HEAP: TrackedHeap<LlffHeap, 128> =
    TrackedHeap::new(LlffHeap::empty(), &raw const __sheap);

/// Bytes to save behind the last used block. The allocator merges free memory, so one hole follows
/// it. The hole starts with its size and a link, one word later behind an allocation of less than
/// two words. Without them the allocator would not know its free memory after a restore.
const HOLE: usize = 3 * size_of::<usize>();

/// Defines a program with this checkpoint store. The checkpointer lies outside of all images.
#[macro_export]
macro_rules! program {
    ($store:ty, $open:expr) => {
        #[unsafe(link_section = ".uninit.checkpointer")]
        static mut CHECKPOINTER: core::mem::MaybeUninit<checkpoint::Checkpointer<$store>> =
            core::mem::MaybeUninit::uninit();

        #[cortex_m_rt::entry]
        fn main() -> ! {
            // SAFETY: main runs once.
            let place = unsafe { &mut *(&raw mut CHECKPOINTER) };
            $crate::device::run(place, $open)
        }
    };
}

/// Runs the program.
pub fn run<S: Store>(place: &'static mut MaybeUninit<Checkpointer<S>>, store: S) -> ! {
    // SAFETY: the symbols of cortex-m-rt and of memory.x; this is the only stack.
    let segments = unsafe {
        checkpoint::segments!(statics: __sdata..__ebss, heap: __sheap.._heap_end, stack: _stack_end.._stack_start)
    };
    let segments = segments.heap_used(|| HEAP.used() + HOLE);
    let ck = Checkpointer::init(place, store, segments, SCB::sys_reset);

    // The first of the two calls. It does not return if there is a checkpoint to restore.
    // SAFETY: no interrupt is enabled, and the images belong to this build: the emulator starts
    // each program with blank flash.
    let why = unsafe { ck.restore() };
    board::event(Event::Started, 0);
    if !matches!(why, checkpoint::Error::NoImage) {
        board::fail(&why)
    }
    start_heap();

    let size = board::requested_size();
    let found = search(size, |placed| {
        // The second of the two calls. It also returns after each restore.
        // SAFETY: no DMA, no interrupts.
        match unsafe { ck.checkpoint() } {
            Ok(Outcome::Taken) => board::event(Event::Taken, placed),
            Ok(Outcome::Restored(_)) => board::event(Event::Restored, placed),
            Err(e) => board::fail(&e),
        }
    });
    print_result(size, &found);
    board::event(Event::Finished, 0);
    cortex_m::asm::udf()
}

/// Initialises the heap, once in the program's life: a restore brings it back.
fn start_heap() {
    let (start, end) = (&raw mut __sheap, &raw mut _heap_end);
    let bytes = end.addr() - start.addr();
    // SAFETY: nothing is allocated yet. Unused memory is zero, which costs no flash in modes that
    // skip zeros.
    unsafe {
        start.write_bytes(0, bytes);
        HEAP.inner().init(start.addr(), bytes);
    }
}

fn print_result(size: u8, found: &SearchResult) {
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
