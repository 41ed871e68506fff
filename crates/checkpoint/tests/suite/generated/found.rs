//! What the campaigns have found, each as its shortest script.

use super::flash;
use super::judge::Seen;
use super::media::{FRAM, HalfPages, Words32};
use super::program::{Op, Script};
use super::run::boot;
use super::stores::{InArchive, InLog, InSlots, Layout};
use crate::faulty::{Fault, Part};
use checkpoint::{CopyIfChange, Full, Split};
use nvmem::{Buffered32, Medium};
use powerfail::{Mapped, Media, Simulated, SpiFram, World, explore_with};

use Fault::{Change, None, Read};
use Op::{Boot, Fill, Foreign, Load, Save, Update, Use};

/// The first byte changes, so that the next save writes one cell.
const fn byte(byte: u8) -> Op {
    let (at, len) = (0, 1);
    Fill { at, len, byte }
}

fn cut_everywhere<L: Layout, M: Media>(media: M, ops: Vec<Op>)
where
    for<'r> M::Nv<'r>: Medium,
{
    let script = Script {
        adaptive: false,
        ops,
    };
    explore_with(script, media, |nv, w: &World<'_, Seen>, script| {
        boot::<L, _>(nv, w, script)
    })
    .limit(64)
    .run();
}

/// The second save fails at its last flush, which is the medium's `last`-th change. What it has
/// written may be in the buffer only, and reads as whole. Then the program goes on with `next`.
fn after_a_flush_that_failed(last: u8, next: &[Op]) -> Vec<Op> {
    let fails = Save(Change(last, Part::Nothing));
    let first = [byte(1), Save(None), byte(2), fails];
    [&first, next].concat()
}

fn mapped() -> Mapped<Buffered32> {
    Mapped::new(FRAM)
}

/// The third save took the second checkpoint for durable, and overwrote the first one.
#[test]
fn a_log_saves_after_a_flush_that_failed() {
    let next = [byte(3), Save(None)];
    cut_everywhere::<InLog<32>, _>(mapped(), after_a_flush_that_failed(4, &next));
}

/// The load restored the second checkpoint, and after a cut the next one restores the first.
#[test]
fn a_log_loads_after_a_flush_that_failed() {
    for next in [Load(None), Boot(None)] {
        cut_everywhere::<InLog<32>, _>(mapped(), after_a_flush_that_failed(4, &[next]));
    }
}

/// The same with images in slots.
#[test]
fn slots_are_loaded_after_a_flush_that_failed() {
    for next in [Load(None), Boot(None)] {
        let next = [next, byte(3), Save(None)];
        let ops = after_a_flush_that_failed(5, &next);
        cut_everywhere::<InSlots<Split, 2>, _>(mapped(), ops);
    }
}

/// The save that failed had left all but its trailer. The next one wrote over its body; then a cut
/// left the trailer, and a checkpoint that was damaged and the newest.
#[test]
fn slots_are_saved_after_a_flush_that_failed() {
    let next = [byte(3), Save(None)];
    let ops = after_a_flush_that_failed(5, &next);
    cut_everywhere::<InSlots<Split, 2>, _>(mapped(), ops);
}

/// A save that fails before it has changed anything.
const FAILS_AT_ONCE: Op = Save(Change(0, Part::Nothing));

/// The first save fails in its last operation: all of it is there. Then two fail in their first.
/// The fourth one erased the slot of the first, and a cut in that erase left a checkpoint that was
/// damaged and the only one.
#[test]
fn slots_on_flash_are_saved_after_a_save_that_failed_at_its_end() {
    let fails_at_its_end = Save(Change(10, Part::Nothing));
    let ops = vec![fails_at_its_end, FAILS_AT_ONCE, FAILS_AT_ONCE, Save(None)];
    cut_everywhere::<InSlots<CopyIfChange<Full>, 3>, _>(flash::<Words32>(), ops);
}

/// The same in an archive, behind a checkpoint that counts: the damaged one was newer.
#[test]
fn archives_on_flash_are_saved_after_a_save_that_failed_at_its_end() {
    let (heap, stack) = (0, 0);
    let fails_at_its_end = Save(Change(7, Part::All));
    let ops = vec![
        Use { heap, stack },
        Save(None),
        fails_at_its_end,
        FAILS_AT_ONCE,
        FAILS_AT_ONCE,
        Save(None),
    ];
    cut_everywhere::<InArchive, _>(flash::<HalfPages>(), ops);
}

/// The fourth save is cut in the erase of the first one, which is another build's. Its head was
/// there when the slots were scanned, and not when it was checked: that counted as damage.
#[test]
fn the_erase_of_another_program_s_image_leaves_no_damage() {
    let without_a_marker = Save(Change(6, Part::All));
    let ops = vec![Save(None), Save(None), Update, without_a_marker, Save(None)];
    cut_everywhere::<InSlots<Split, 3>, _>(flash::<HalfPages>(), ops);
}

/// A load that could not read forgot that the newer image is another program's.
#[test]
fn another_program_s_image_is_not_spared_after_a_load_that_failed() {
    for read in 2..9 {
        let ops = vec![Save(None), Foreign(None), Load(Read(read)), Save(None)];
        cut_everywhere::<InSlots<Split, 2>, _>(Simulated::<SpiFram>::new(FRAM), ops);
    }
}

/// The other program's image is newer. When a save failed before it had changed that one, and it
/// then counted, the next save was written over the only checkpoint of this program.
#[test]
fn another_program_s_image_stays_the_one_to_overwrite() {
    let ops = vec![Save(None), Foreign(None), FAILS_AT_ONCE, Save(None)];
    cut_everywhere::<InSlots<Split, 2>, _>(Simulated::<SpiFram>::new(FRAM), ops);
}
