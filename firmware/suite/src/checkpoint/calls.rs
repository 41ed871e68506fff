//! On a machine: lamps whose contexts commit by themselves, in a program with checkpoints. Its
//! calls run on a stack of their own, where a checkpoint is refused. After a cut the program is
//! brought back to before its last call, and so are the lamps; it makes the call again as a whole.

use super::target::{ASIDE, Aside, STACK, restart};
use super::{CONTEXTS, PROGRAM};
use crate::{Mapped, Scene, check, ok, progress};
use checkpoint::{Checkpointer, Error, Images, Outcome, Slots, Split, Store};
use core::convert::Infallible;
use core::mem::MaybeUninit;
use nv_device::{Apply, CallStack, Committed, Device, Own, OwnContext, Restore, StackBytes, open};

/// The lamps after a reset.
const RESET: u8 = 0xFF;

/// The port of the lamps, and a second one: no image has what a peripheral has.
#[unsafe(link_section = ".uninit.ports")]
static mut PORTS: [u8; 2] = [0; 2];
#[unsafe(link_section = ".uninit.calls")]
static mut CALLS: StackBytes<512> = StackBytes::NEW;

fn write(port: usize, value: u8) {
    // SAFETY: a byte that only this function and `read` use, one after the other.
    unsafe {
        (&raw mut PORTS)
            .cast::<u8>()
            .add(port % 2)
            .write_volatile(value)
    }
}

fn read(port: usize) -> u8 {
    // SAFETY: as above.
    unsafe {
        (&raw const PORTS)
            .cast::<u8>()
            .add(port % 2)
            .read_volatile()
    }
}

/// Lamps whose context has one unit. The driver believes what it has shown.
struct Lamps(u8);
impl Restore for Lamps {
    type Context = u8;
    type Parts = ();
    type Error = Infallible;
    fn restore(_: &mut (), lit: &u8) -> Result<Self, Infallible> {
        write(0, *lit);
        Ok(Lamps(*lit))
    }
    fn apply(&mut self, lit: &u8) -> Result<Apply, Infallible> {
        if self.0 != *lit {
            write(0, *lit);
        }
        self.0 = *lit;
        Ok(Apply::Done)
    }
}

/// A context of several units, whose values belong together.
type Pair = [u32; 2];

struct Bars;
impl Restore for Bars {
    type Context = Pair;
    type Parts = ();
    type Error = Infallible;
    fn restore(_: &mut (), pair: &Pair) -> Result<Self, Infallible> {
        write(1, pair[0] as u8);
        Ok(Bars)
    }
}

const ROUNDS: u16 = 3;

/// What the lamps show after so many rounds.
fn lit(rounds: u16) -> u8 {
    (0..rounds).fold(0, |lit: u8, _| lit.wrapping_add(1).wrapping_mul(2))
}

pub(super) fn calls<M: Mapped>(scene: &mut Scene<'_, M>) {
    let Ok((contexts, images)) = scene.region().split_at(CONTEXTS) else {
        check!(scene, false);
        return;
    };
    let all = 0..images.len() as u32;
    let images = ok!(scene, Images::<_, 2>::open(images, all, PROGRAM));
    write(0, RESET);
    write(1, RESET);
    // SAFETY: the linker script's; this is the stack that we run on.
    let segments = unsafe {
        checkpoint::segments!(statics: _data.._bss_end, heap: _heap.._heap_end, stack: _stack_low.._stack_top)
    };
    let segments = segments.heap_used(|| 0);
    let slots = Slots::new(images, Split);
    // What is undefined on the stacks comes from here, too.
    // SAFETY: nobody uses them yet.
    unsafe {
        (&raw mut ASIDE).write_bytes(0, 1);
        (&raw mut CALLS).write_bytes(0, 1);
    }
    // SAFETY: `run` is entered once in a boot.
    let bytes = unsafe { &mut *(&raw mut CALLS) };
    // SAFETY: large enough, aligned, and used here only.
    let ck = unsafe { checkpointer(slots, segments) };
    // SAFETY: of no boot but one of this image; interrupts touch nothing but the mailbox.
    let why = unsafe { ck.restore() };
    check!(scene, matches!(why, Error::NoImage));
    check!(scene, scene.read_cell(0) == 0);
    let (lit, pair) = ok!(
        scene,
        open::<(Own<u8>, Own<Pair>), M>(contexts, Committed::NOTHING, (0, [0, 1]))
    );
    rounds(scene, ck, &mut CallStack::new(bytes), lit, pair);
}

/// A checkpointer in its place.
///
/// # Safety
/// It is called once in a boot.
unsafe fn checkpointer<'a, S: Store + 'a>(
    slots: S,
    segments: checkpoint::Segments,
) -> &'a mut Checkpointer<S, STACK> {
    const { assert!(size_of::<MaybeUninit<Checkpointer<S, STACK>>>() <= size_of::<Aside>()) };
    // SAFETY: large enough and aligned; the caller sees to the rest.
    let place = unsafe { &mut *(&raw mut ASIDE).cast::<MaybeUninit<Checkpointer<S, STACK>>>() };
    Checkpointer::init(place, slots, segments, restart)
}

#[inline(never)]
fn rounds<M: Mapped, S: Store>(
    scene: &Scene<'_, M>,
    ck: &mut Checkpointer<S, STACK>,
    calls: &mut CallStack<'_>,
    one: OwnContext<'_, u8, M>,
    pair: OwnContext<'_, Pair, M>,
) {
    let mut lamps = ok!(scene, Device::<Lamps, M>::eager(one, ()));
    let mut bars = ok!(scene, Device::<Bars, M>::eager(pair, ()));
    let mut done = 0;
    while done < ROUNDS {
        // SAFETY: no DMA; and the mailbox, which is outside of memory, is read as a volatile one.
        match ok!(scene, unsafe { ck.checkpoint() }) {
            Outcome::Taken => {}
            Outcome::Restored(_) => {
                // The life began after the checkpoint: no call has touched the ports.
                check!(scene, read(0) == RESET && read(1) == RESET);
                ok!(scene, lamps.restored());
                ok!(scene, bars.restored());
            }
        }
        progress!(scene, done);
        check!(scene, *lamps.context() == lit(done) && read(0) == lit(done));
        let pair = *bars.context();
        check!(scene, pair == [done.into(), u32::from(done) + 1]);
        check!(scene, read(1) == done as u8);
        let whole = calls.run(|| {
            let first = lamps.change((), |lit, ()| *lit = lit.wrapping_add(1));
            // SAFETY: as above. It is refused.
            let refused = unsafe { ck.checkpoint() };
            let refused = matches!(refused, Err(Error::NotResumable));
            let both = bars.change((), |pair, ()| *pair = pair.map(|v| v + 1));
            let second = lamps.change((), |lit, ()| *lit = lit.wrapping_mul(2));
            first.is_ok() && second.is_ok() && both.is_ok() && refused
        });
        check!(scene, whole);
        done += 1;
        check!(scene, *lamps.context() == lit(done) && read(0) == lit(done));
    }
}
