//! What the campaigns have found, each as its shortest script.

use super::media::flash;
use super::{record, superblock};
use crate::faulty::{Fault, Part};
use nvmem::{Buffered32, InOrder16};
use powerfail::{BufferedNor, Mapped};

use Fault::{Change, None};

/// A `set` fails at its last flush, which is the medium's change number 1 where nothing is erased.
/// The value may be in the buffer only, and reads as whole. Then the record is opened, which finds
/// it. A cut must not take it back, nor may the next `set` overwrite the value before.
#[test]
fn a_record_is_opened_after_a_flush_that_failed() {
    use record::Op::{Open, Set};
    for asynch in [false, true] {
        let script = |change| record::Script {
            asynch,
            older: 0,
            ops: vec![
                Set(None),
                Set(Change(change, Part::Nothing)),
                Open(None),
                Set(None),
            ],
        };
        record::cut_everywhere(Mapped::<Buffered32>::new(96), script(1));
        // Each change of the second `set`, and so its last flush.
        for change in 0..16 {
            record::cut_everywhere(flash::<BufferedNor>(3 * 128), script(change));
        }
    }
}

/// A `set` is cut, and its slot lacks only words that the next slot has too. An open finds the
/// value before it. Then a `set` fails when it has stored these words. That must not make the first
/// slot whole, whose value the open has found missing.
#[test]
fn a_torn_slot_does_not_become_whole() {
    use record::Op::{Open, Set};
    for (asynch, fault) in [
        (true, Change(1, Part::Nothing)),
        (false, Change(0, Part::Half)),
    ] {
        let script = record::Script {
            asynch,
            older: 7,
            ops: vec![Set(None), Set(fault), Open(None)],
        };
        record::cut_everywhere(Mapped::<Buffered32>::new(96), script);
    }
}

/// A format of a used region was begun, and then its marker is damaged. The superblock of the
/// content that was given up must not count again.
#[test]
fn a_damaged_marker_does_not_bring_the_superblock_back() {
    use superblock::Op::{Begin, Flip};
    for bit in [512, 545 + 2, 600, 1023] {
        let ops = vec![Begin, Flip(bit)];
        superblock::cut_everywhere::<InOrder16, 7>(superblock::Script { ops });
    }
}
