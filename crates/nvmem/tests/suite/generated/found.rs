//! What the campaigns have found, each as its shortest script.

use super::media::flash;
use super::{level, record};
use crate::faulty::{Fault, Part};
use nvmem::Buffered32;
use powerfail::{BufferedNor, Mapped};

use Fault::{Change, None};

/// The `last`-th change of the medium fails, which is the flush at the end of a write. What was
/// written may be in the buffer only, and reads as whole.
const fn flush_fails(last: u8) -> Fault {
    Change(last, Part::Nothing)
}

/// Then the record is opened, which finds that value. A cut must not take it back, nor may the next
/// `set` overwrite the value before.
#[test]
fn a_record_is_opened_after_a_flush_that_failed() {
    use record::Op::{Open, Set};
    for asynch in [false, true] {
        let script = |last| record::Script {
            asynch,
            older: 0,
            ops: vec![Set(None), Set(flush_fails(last)), Open(None), Set(None)],
        };
        record::cut_everywhere(Mapped::<Buffered32>::new(96), script(1));
        for last in 4..16 {
            eprintln!("{last}");
            record::cut_everywhere(flash::<BufferedNor>(3 * 128), script(last));
        }
    }
}

/// The same for a page. The next call opens the log again by itself.
#[test]
fn wear_levelled_flash_is_used_after_a_flush_that_failed() {
    use level::Op::{Open, Read, Write};
    let write = |fault| Write {
        at: 0,
        len: 4,
        fault,
    };
    for asynch in [false, true] {
        for next in [Read(None), Open(None)] {
            for last in 1..12 {
                eprintln!("{last}");
                let script = level::Script {
                    asynch,
                    ops: vec![write(None), write(flush_fails(last)), next, write(None)],
                };
                level::cut_everywhere(flash::<BufferedNor>(7 * 128), script);
            }
        }
    }
}
