//! Buttons that interrupt: a top half that stores an event, a ring, and steps that handle it.

use super::{APART, CLEARED_FIRST, TABLE, committed, options, parts};
use crate::abi::bench::{CLEARED, ENABLE, EVENT, FLAGS, PRESS, PRESSED};
use crate::{Bench, Mapped, Scene, check, ok};
use core::cell::Cell;
use critical_section::Mutex;
use nv_device::{Devices, Events, Members, Posted, Ring, Set, open, within};
use nv_replay::Replay;
use nv_replay::nvmem::Region;

/// Events of one button, shared by its interrupt and the program.
type Shared<'m, M> = Mutex<Events<'m, 8, M>>;

/// The presses that were handled, by their numbers; and the number of the last one in the upper
/// half.
type Handled = u32;

/// The button's interrupt: stores the event, then clears the flag.
fn top_half<M: Mapped>(bench: Bench<'_>, button: &Shared<'_, M>, bug: u16) {
    if bench.read(FLAGS) & 1 == 0 {
        return;
    }
    let number = bench.read(EVENT);
    if bug == CLEARED_FIRST {
        bench.write(FLAGS, 1);
    }
    let posted = critical_section::with(|cs| button.borrow(cs).post(number.into()));
    if posted == Posted::Stored {
        bench.write(FLAGS, 1);
    }
}

struct Panel<'d, 'm, M: Mapped> {
    button: Shared<'m, M>,
    scene: &'d Scene<'d, M>,
    /// For a planted bug: an event that the last step has taken.
    taken: Cell<u32>,
}

impl<M: Mapped> Devices for Panel<'_, '_, M> {
    fn list(&self) -> impl Members {
        within(|f| critical_section::with(|cs| f(self.button.borrow(cs))))
    }
}

impl<M: Mapped> Panel<'_, '_, M> {
    /// Handles a press: in order, and once.
    fn handle(&self, handled: Handled, number: u32) -> Handled {
        let (bit, last) = (1 << (number & 15), handled >> 16);
        check!(self.scene, number > last && handled & bit == 0);
        (handled | bit) & 0xFFFF | number << 16
    }
}

/// Turns in which a press may be handled, one in each.
fn program<M: Mapped>(scene: &Scene<'_, M>, region: Region<'_, M>, presses: u16, turns: u32) {
    let (bug, bench) = (scene.argument(), scene.bench());
    check!(scene, bench.read(FLAGS) == 0 && bench.read(ENABLE) == 0);
    let (contexts, rest) = parts(scene, region);
    let committed = committed(scene, &rest, &TABLE);
    let (button,) = ok!(scene, open::<(Ring<8>,), M>(contexts, committed, ((),)));
    let panel = Set::new(Panel {
        button: Mutex::new(button),
        scene,
        taken: Cell::new(0),
    });
    let mut rt = ok!(
        scene,
        Replay::<Handled, M, _>::open_with(rest, options(TABLE), (), |_| Ok(0))
            .map_err(|r| r.error)
    );
    bench.write(ENABLE, 1);
    interrupts::during(&panel.button, scene, || {
        let worked = rt.each_step_with(
            &panel,
            0..turns,
            (bug, presses),
            |step, handled, _, args| {
                let (bug, presses) = args;
                let panel = step.token();
                let bench = panel.scene.bench();
                if bench.read(PRESSED) < presses {
                    bench.write(PRESS, 1);
                    top_half(bench, &panel.button, bug);
                }
                let event = critical_section::with(|cs| panel.button.borrow(cs).take(step))?;
                let mut number = event.map_or(0, |e| e.value);
                if bug == APART {
                    number = panel.taken.replace(number);
                }
                if number != 0 {
                    let new = panel.handle(*handled.get(step), number);
                    *handled.get_mut(step)? = new;
                }
                Ok(())
            },
        );
        ok!(scene, worked);
    });
    bench.write(ENABLE, 0);
    // What is left.
    let handled = rt.step_with(&panel, (), |step, handled, ()| {
        let panel = step.token();
        while let Some(e) = critical_section::with(|cs| panel.button.borrow(cs).take(step))? {
            let new = panel.handle(*handled.get(step), e.value);
            *handled.get_mut(step)? = new;
        }
        Ok(*handled.get(step))
    });
    let handled = ok!(scene, handled);
    let waiting = critical_section::with(|cs| panel.button.borrow(cs).waiting());
    check!(scene, waiting == 0);
    // What the button was told of is handled, and nothing that it has not told.
    check!(scene, u32::from(bench.read(CLEARED)) & !handled == 0);
    check!(scene, handled >> 16 <= bench.read(PRESSED).into());
    check!(scene, bench.read(PRESSED) >= presses);
}

/// The program presses the button itself: every instruction of the top half is cut.
pub(super) fn pressed<M: Mapped>(scene: &mut Scene<'_, M>) {
    let presses = scene.rounds(3).min(7);
    let region = scene.region();
    program(scene, region, presses, u32::from(presses) + 1);
}

/// The outside presses it, at any instruction.
pub(super) fn interrupted<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region();
    program(scene, region, 0, 3);
}

/// A host has none.
#[cfg(not(target_os = "none"))]
mod interrupts {
    use super::*;

    pub fn during<M: Mapped>(_: &Shared<'_, M>, _: &Scene<'_, M>, f: impl FnOnce()) {
        f()
    }
}

#[cfg(target_os = "none")]
mod interrupts {
    use super::*;
    use crate::abi::cell;
    use crate::machine;
    use core::cell::UnsafeCell;

    struct Source(UnsafeCell<*const ()>);
    // SAFETY: one core, and each access is one volatile access of a word.
    unsafe impl Sync for Source {}
    static SOURCE: Source = Source(UnsafeCell::new(core::ptr::null()));

    fn on_tick<M: Mapped>() {
        let scene = Scene::<'static, M>::anywhere();
        // SAFETY: as above; `during` has stored it, and it is there until that has returned.
        let button = unsafe {
            SOURCE
                .0
                .get()
                .read_volatile()
                .cast::<Shared<'static, M>>()
                .as_ref()
        };
        if let Some(button) = button {
            top_half(scene.bench(), button, scene.argument());
        }
    }

    /// While `f` runs, the timer's interrupt is the button's.
    pub fn during<M: Mapped>(button: &Shared<'_, M>, scene: &Scene<'_, M>, f: impl FnOnce()) {
        // SAFETY: as above.
        unsafe { SOURCE.0.get().write_volatile((&raw const *button).cast()) };
        machine::on_tick(on_tick::<M>);
        let timer = machine::timer().is_some();
        if timer {
            enable();
        }
        scene.write_cell(cell::OPEN - cell::OWN, 1);
        f();
        scene.write_cell(cell::OPEN - cell::OWN, 0);
        // SAFETY: as above.
        unsafe { SOURCE.0.get().write_volatile(core::ptr::null()) };
    }

    /// Start-up leaves interrupts disabled on some machines.
    fn enable() {
        // SAFETY: the handler is there.
        #[cfg(target_arch = "riscv32")]
        unsafe {
            core::arch::asm!("csrsi mstatus, 8")
        };
        // SAFETY: as above.
        #[cfg(target_arch = "msp430")]
        unsafe {
            core::arch::asm!("nop", "eint", "nop")
        };
    }
}
