//! What the campaigns have found, each as its shortest script.

use super::media::flash;
use super::record;
use crate::faulty::{Fault, Part};
use nvmem::Buffered32;
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
