//! What the campaigns have found, each as its shortest script.

use super::{level, record};
use crate::faulty::{Fault, Part};
use super::media::flash;
use crate::support::{Tiny};
use nvmem::{Buffered32};
use powerfail::{BufferedNor, Mapped, explore_with};
use Fault::{Change, None};

/// A value was set, but the last flush failed: it may be in the buffer only. Then the record is
/// opened, which finds the value. A cut must not take it back, nor may the next `set` overwrite the
/// value before.
#[test]
fn a_record_is_opened_after_a_flush_that_failed() {
    use record::{Op::{Open, Set}, Script, boot};
    for asynch in [false, true] {
        let fails = |last| Set(Change(last, Part::Nothing));
        let ops = |last| vec![Set(None), fails(last), Open(None), Set(None)];
        let script = |last| Script { asynch, older: 0, ops: ops(last) };
        explore_with(script(1), Mapped::<Buffered32>::new(96), boot::<Mapped<Buffered32>>).run();
    }
}
