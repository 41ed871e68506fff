//! The paper's layout: one slot, overwritten in place, from the program word up; nothing of it
//! survives a cut.

use crate::flash::{Flash, Part};
use crate::program::Program;
use crate::run::Mode;
use checkpoint::Work;
use checkpoint::nvmem::Medium;

/// Magic section, size, stack pointer and link register, in front and behind.
const HEADER: usize = 16;

/// Flash with the paper's one slot.
pub struct InPlace<P> {
    flash: Flash<P>,
}

/// What the mode saves, in the order of the paper's section 4.
pub fn image(mode: Mode, p: &Program) -> Vec<u8> {
    let mut out = vec![0x5A; HEADER];
    let stack = &p.stack[p.stack.len() - p.stack_used..];
    match mode {
        Mode::Full | Mode::CopyIfChange => {
            out.extend(&p.statics);
            out.extend(&p.heap);
            out.extend(&p.stack);
        }
        Mode::Stack => {
            out.extend(stack);
            out.extend(&p.statics);
        }
        Mode::Split => {
            out.extend(stack);
            out.extend(&p.statics);
            out.extend(&p.heap[..p.heap_used()]);
        }
        Mode::HeapTracker => {
            out.extend(stack);
            out.extend(&p.statics);
            let table = p.table();
            for (i, block) in p.heap.chunks(128).enumerate() {
                if checkpoint::Blocks::in_use(&table, i as u32) {
                    out.extend(block);
                }
            }
        }
        Mode::Adaptive => unreachable!("not in the paper"),
    }
    out
}

impl<P: Part> InPlace<P> {
    pub fn new() -> Self {
        InPlace {
            flash: Flash::new(2 * P::RAM),
        }
    }

    /// Writes an image over the one before.
    pub fn checkpoint(&mut self, mode: Mode, p: &Program) -> Work {
        let image = image(mode, p);
        let unit = P::CONTRACT.erase_size() as usize;
        let word = P::CONTRACT.write_size as usize;
        self.flash.tally.take(true);
        for (i, bytes) in image.chunks(unit).enumerate() {
            let at = (i * unit) as u32;
            if mode == Mode::CopyIfChange {
                let mut old = vec![0; bytes.len()];
                self.flash.read(at, &mut old).expect("it lies inside");
                if old == bytes {
                    continue;
                }
            }
            let mut bytes = bytes.to_vec();
            bytes.resize(bytes.len().next_multiple_of(word), 0xFF);
            self.flash
                .erase(at, at + unit as u32)
                .expect("it lies inside");
            self.flash.write(at, &bytes).expect("it was erased");
        }
        self.flash.tally.take(false)
    }

    /// What restoring reads.
    pub fn restore(mode: Mode, p: &Program) -> Work {
        Work {
            read: image(mode, p).len() as u64,
            ..Work::default()
        }
    }
}

impl<P: Part> Default for InPlace<P> {
    fn default() -> Self {
        Self::new()
    }
}
