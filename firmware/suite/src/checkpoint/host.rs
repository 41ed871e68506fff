//! On a host: the state in a buffer, and a program that is a loop.

use super::{CONTEXTS, PROGRAM};
use crate::flash::Flash;
use crate::{Mapped, Scene, check, ok, progress};
use checkpoint::nvmem::device::Medium;
use checkpoint::{CopyIfChange, Error, Full, Images, Memory, Mode, Slots, Split, Store};
use core::convert::Infallible;
use nv_device::{Apply, CallStack, Committed, Device, Own, Restore, StackBytes, open};

const STEPS: u16 = 3;

pub(super) fn fram<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region();
    run::<M, _, _, 2>(scene, region, Split);
}

pub(super) fn full<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region();
    run::<M, _, _, 2>(scene, region, Full);
}

pub(super) fn flash<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region();
    run::<M, _, _, 3>(scene, Flash::<M, 0xFF>(region), CopyIfChange(Full));
}

fn run<M: Mapped, D: Medium, W: Mode, const N: usize>(scene: &Scene<'_, M>, medium: D, mode: W) {
    let all = 0..medium.capacity();
    let images = ok!(scene, Images::<_, N>::open(medium, all, PROGRAM));
    let mut slots = Slots::new(images, mode);
    let (mut statics, mut heap, mut stack) = ([0; 12], [0; 8], [0; 4]);
    let mut memory = Memory::new(&mut statics, &mut heap, &mut stack).heap_used(4);
    let mut done = match slots.load(&mut memory) {
        Ok(restored) => restored.context as u16,
        Err(Error::NoImage) => 0,
        Err(e) => scene.failed(const { crate::code(file!(), line!()) }, &e),
    };
    progress!(scene, done);
    while done < STEPS {
        check!(
            scene,
            u16::from(statics[0]) == done && heap[3] == statics[0]
        );
        done += 1;
        statics[0] += 1;
        heap[3] += 1;
        let memory = Memory::new(&mut statics, &mut heap, &mut stack).heap_used(4);
        ok!(scene, slots.save(&memory, done.into()));
        scene.write_cell(0, done);
    }
}

/// Lamps, whose contexts are all that a host keeps.
struct Lamps;
impl Restore for Lamps {
    type Context = u8;
    type Parts = ();
    type Error = Infallible;
    fn restore(_: &mut (), _: &u8) -> Result<Self, Infallible> {
        Ok(Lamps)
    }
    fn apply(&mut self, _: &u8) -> Result<Apply, Infallible> {
        Ok(Apply::Done)
    }
}

pub(super) fn calls<M: Mapped>(scene: &mut Scene<'_, M>) {
    let Ok((contexts, _)) = scene.region().split_at(CONTEXTS) else {
        check!(scene, false);
        return;
    };
    let (lit,) = ok!(
        scene,
        open::<(Own<u8>,), M>(contexts, Committed::NOTHING, (0,))
    );
    let mut lamps = Device::<Lamps, M>::new(lit, ());
    let mut bytes = StackBytes::<256>::NEW;
    let mut calls = CallStack::new(&mut bytes);
    while *lamps.context() < STEPS as u8 {
        progress!(scene, u16::from(*lamps.context()));
        let done = calls.run(|| lamps.change((), |lit, ()| *lit += 1));
        check!(scene, done.is_ok());
    }
}
