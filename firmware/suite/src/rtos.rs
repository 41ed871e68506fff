//! Two threads of the kernel of `nv-rtos`, a queue and a semaphore, preempted anywhere.
//!
//! ```text
//!   producer                  ROOM: semaphore          consumer
//!   takes one  <------------- 2, at first  <---------- gives one
//!   sends n    -------------> QUEUE: 2 slots --------> receives n, and keeps the sum
//! ```
//!
//! Both threads have one priority, and each tick of the timer ends a time slice. Each turn is one
//! step: it takes and sends, or receives and gives, at once. At the beginning of a turn the turn
//! before is committed, and the mailbox gets its number. So after a cut:
//!
//! - each thread has done as many turns as the mailbox says of it, or one more;
//! - messages come once each, in order, and none before its turn is committed;
//! - the producer is at most two turns ahead;
//! - when both have ended, the queue is empty and the semaphore has two.
//!
//! On a host there are no interrupts, and no port: the kernel's own tests run there.

use crate::{Group, Mapped, Scenario, Scene};

/// The scenarios of the image `rtos`.
pub const fn group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "rtos",
            primitive: "nv-rtos",
            scenarios: &[one("handover", machine::handover)],
        }
    }
}

/// One of the scenarios, which between them use each kind of object.
const fn one<M: Mapped>(name: &'static str, run: fn(&mut Scene<'_, M>)) -> Scenario<M> {
    Scenario::preempted_at_some(name, BYTES, run, KINDS)
}

macro_rules! groups {
    ($($(#[$doc:meta])* $group:ident, $name:literal: $scenario:ident;)+) => {$(
        $(#[$doc])*
        pub const fn $group<M: Mapped>() -> Group<M> {
            const {
                Group {
                    name: $name,
                    primitive: "nv-rtos",
                    scenarios: &[one(stringify!($scenario), $scenario::$scenario)],
                }
            }
        }
    )+};
}
// An MSP430 has room for one of them in an image.
groups! {
    /// An event group and notifications.
    events_group, "rtos-events": signals;
    /// Timers.
    timers_group, "rtos-timers": expiries;
    /// A mutex with data.
    locks_group, "rtos-locks": locks;
    /// Messages from a handler.
    posts_group, "rtos-posts": posts;
    /// Reserved places. Not on an MSP430.
    places_group, "rtos-places": places;
}

/// What the kernel's calls cost.
pub const fn costs_group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "rtos-costs",
            primitive: "nv-rtos",
            scenarios: &[Scenario::measuring("measure", 2048, costs::measure)],
        }
    }
}

/// The argument of a planted bug: a timer's handler that forgets a register of the thread that it
/// interrupts.
pub(crate) const REGISTER_LOST: u16 = 25;
/// A turn is told before it is committed.
pub(crate) const TOLD: u16 = 26;
/// Sections keep away the switch, but not the timer's handler.
pub(crate) const UNMASKED: u16 = 27;

const BYTES: usize = 1024;
/// The number of these scenarios.
const KINDS: u16 = 6;

#[cfg(all(target_os = "none", target_abi = "eabihf"))]
mod costs;
/// It does not fit into an MSP430, and does not run there.
#[cfg(all(target_os = "none", any(target_arch = "arm", target_arch = "riscv32")))]
mod places;

/// One module of scenarios, where there is a port.
macro_rules! ported {
    ($($name:ident)+) => {$(
        #[cfg(any(
            target_arch = "msp430",
            all(
                target_os = "none",
                any(target_arch = "arm", target_arch = "riscv32")
            )
        ))]
        mod $name;
        #[cfg(not(any(
            target_arch = "msp430",
            all(
                target_os = "none",
                any(target_arch = "arm", target_arch = "riscv32")
            )
        )))]
        mod $name {
            #[allow(unused_imports)]
            pub(super) use super::machine::handover as $name;
        }
    )+};
}
ported! { boot signals expiries locks posts }

/// Where there is a port.
#[cfg(any(
    target_arch = "msp430",
    all(target_os = "none", any(target_arch = "arm", target_arch = "riscv32"))
))]
mod machine {
    use super::boot::{Core, Here, Masked, STACK, Stack, run, tell, tick};
    use super::{REGISTER_LOST, TOLD, UNMASKED};
    use crate::{Mapped, Scene, check, machine, ok};
    use core::arch::asm;
    #[cfg(not(target_arch = "arm"))]
    use core::arch::naked_asm;
    use core::ops::Range;
    use nv_rtos::pmem_tx::{Preempted, Section};
    use nv_rtos::{Error, Thread};

    /// The mailbox's cells: how many turns of each thread are committed.
    const SENT: u16 = 0;
    const RECEIVED: u16 = 1;
    /// How many turns, if nobody asks for more.
    const ROUNDS: u16 = 3;

    /// The port's section, unless a planted bug wants another one.
    enum Sections {}
    // SAFETY: the port's section.
    #[cfg(not(target_arch = "msp430"))]
    unsafe impl Section for Sections {
        #[inline(always)]
        fn with<R>(f: impl FnOnce() -> R) -> R {
            match Here::anywhere().argument() {
                UNMASKED => less_urgent(f),
                _ => Masked::with(f),
            }
        }
    }
    // SAFETY: the port's section. There is the code of `f` once: the image would be too large.
    #[cfg(target_arch = "msp430")]
    unsafe impl Section for Sections {
        #[inline(always)]
        fn with<R>(f: impl FnOnce() -> R) -> R {
            let status: u16;
            // SAFETY: reads SR.
            unsafe { asm!("mov r2, {0}", out(reg) status) };
            Masked::with(|| {
                let open = unmask(status);
                let r = f();
                mask(open);
                r
            })
        }
    }

    /// A planted bug: masks the software interrupt, and not the timer's.
    #[cfg(target_arch = "riscv32")]
    fn less_urgent<R>(f: impl FnOnce() -> R) -> R {
        const SOFTWARE: u32 = 1 << 3;
        // SAFETY: mie, whose other bits stay.
        unsafe {
            let before: u32;
            asm!("csrrc {0}, mie, {1}", out(reg) before, in(reg) SOFTWARE);
            let r = f();
            asm!("csrs mie, {0}", in(reg) before & SOFTWARE);
            r
        }
    }

    /// A planted bug: in a section that has masked interrupts, enables them, and masks that of
    /// TA0CCTL1.
    #[cfg(target_arch = "msp430")]
    #[inline(never)]
    fn unmask(status: u16) -> u16 {
        const GIE: u16 = 8;
        const CCIE: u16 = 0x10;
        if status & GIE == 0 || Here::anywhere().argument() != UNMASKED {
            return 0;
        }
        // SAFETY: CCIE of TA0CCTL1, whose other bits stay; interrupts were enabled.
        unsafe {
            let before: u16;
            asm!("mov &0x0344, {0}", "bic #0x10, &0x0344", out(reg) before);
            asm!("eint", "nop");
            before & CCIE
        }
    }

    /// The end of such a section: as it was.
    #[cfg(target_arch = "msp430")]
    #[inline(never)]
    fn mask(open: u16) {
        // SAFETY: as above.
        unsafe { asm!("dint", "nop", "bis {0}, &0x0344", in(reg) open) }
    }

    /// A planted bug: masks PendSV, and nothing that is more urgent.
    #[cfg(target_abi = "eabihf")]
    fn less_urgent<R>(f: impl FnOnce() -> R) -> R {
        const URGENT: u32 = 0xC0;
        // SAFETY: BASEPRI, which nothing else uses.
        unsafe {
            let before: u32;
            asm!("mrs {0}, basepri", "msr basepri, {1}", out(reg) before, in(reg) URGENT);
            let r = f();
            asm!("msr basepri, {0}", "isb", in(reg) before);
            r
        }
    }
    /// ARMv6-M masks all or nothing.
    #[cfg(all(target_arch = "arm", not(target_abi = "eabihf")))]
    fn less_urgent<R>(f: impl FnOnce() -> R) -> R {
        Masked::with(f)
    }
    type Fram = Preempted<machine::Model, Sections>;

    nv_rtos::system! {
        /// What this scenario runs.
        Plan on Fram;
        table { bytes: 32, outbox_bytes: 0, seq_bits: 8 }
        objects {
            ROOM: Semaphore = (2, 2);
            QUEUE: Queue<[u32; 2], 2>;
        }
        threads {
            producer(u32 = 0): 1;
            consumer([u32; 2] = [0; 2]): 1;
        }
    }

    /// Whether a thread's last turn checks what is left. Elsewhere a step behind the loop does: the
    /// code of both does not fit into an MSP430.
    const LAST_TURN: bool = cfg!(target_arch = "msp430");

    /// The turns of a thread's loop, and the one that checks.
    fn all(turns: u32) -> Range<u32> {
        0..turns + u32::from(LAST_TURN)
    }

    fn is_last(i: u32) -> bool {
        LAST_TURN && i == u32::from(Here::anywhere().rounds(ROUNDS))
    }

    fn produce(th: &mut Thread<Plan, u32>, turns: u32) -> Result<(), Error> {
        th.each_step(all(turns), (), |sys, count, i, ()| {
            tell(SENT, i);
            let scene = Here::anywhere();
            if is_last(i) {
                ROOM.take(sys)?;
                ROOM.take(sys)?;
                check!(scene, !ROOM.try_take(sys)?);
                check!(scene, QUEUE.try_receive(sys)?.is_none());
                return Ok(());
            }
            check!(scene, *count.get(sys) == i);
            check!(scene, i <= u32::from(scene.read_cell(RECEIVED)) + 3);
            ROOM.take(sys)?;
            *count.get_mut(sys)? = i + 1;
            QUEUE.send(sys, [i, !i])?;
            if scene.argument() == TOLD {
                tell(SENT, i + 1);
            }
            Ok(())
        })?;
        tell(SENT, turns);
        if LAST_TURN {
            return Ok(());
        }
        th.join(Plan::consumer())?;
        let left = th.step((), |sys, _, ()| {
            ROOM.take(sys)?;
            ROOM.take(sys)?;
            Ok(u32::from(
                ROOM.try_take(sys)? || QUEUE.try_receive(sys)?.is_some(),
            ))
        })?;
        check!(Here::anywhere(), left == 0);
        Ok(())
    }

    /// Whether so many messages have this sum.
    fn is_sum(turns: u32, sum: u32) -> bool {
        let all = turns.wrapping_mul(turns.wrapping_sub(1)) / 2;
        turns > 1000 || sum == all.wrapping_mul(3)
    }

    fn consume(th: &mut Thread<Plan, [u32; 2]>, turns: u32) -> Result<(), Error> {
        th.each_step(all(turns), (), |sys, sum, i, ()| {
            tell(RECEIVED, i);
            let scene = Here::anywhere();
            if is_last(i) {
                check!(scene, is_sum(i, sum.get(sys)[1]));
                return Ok(());
            }
            let [n, not] = QUEUE.receive(sys)?;
            check!(scene, n == i && not == !i);
            check!(scene, i <= u32::from(scene.read_cell(SENT)));
            let sum = sum.get_mut(sys)?;
            check!(scene, sum[0] == i);
            *sum = [i + 1, sum[1].wrapping_add(n * 3)];
            ROOM.give(sys)
        })?;
        tell(RECEIVED, turns);
        if LAST_TURN {
            return Ok(());
        }
        let sum = th.step((), |sys, sum, ()| Ok(sum.get(sys)[1]))?;
        check!(Here::anywhere(), is_sum(turns, sum));
        Ok(())
    }

    fn on_tick() {
        tick();
    }

    /// A planted bug: the core has stacked r0 of the interrupted thread, and it is changed there.
    #[cfg(target_arch = "arm")]
    fn on_tick_lost() {
        // SAFETY: that is where it is.
        unsafe {
            let frame: *mut u32;
            asm!("mrs {0}, psp", out(reg) frame);
            frame.write_volatile(frame.read_volatile() ^ 1);
        }
        tick();
    }

    /// A planted bug: changes a register that a function must keep.
    #[cfg(target_arch = "riscv32")]
    #[unsafe(naked)]
    extern "C" fn lost() {
        naked_asm!(
            "addi sp, sp, -16",
            "sw ra, 0(sp)",
            "call {tick}",
            "lw ra, 0(sp)",
            "addi sp, sp, 16",
            "xori s0, s0, 1",
            "ret",
            tick = sym tick,
        )
    }

    /// A planted bug: changes a register that a function must keep.
    #[cfg(target_arch = "msp430")]
    #[unsafe(naked)]
    extern "C" fn lost() {
        naked_asm!("call #{tick}", "xor #1, r10", "ret", tick = sym tick)
    }

    #[cfg(not(target_arch = "arm"))]
    fn on_tick_lost() {
        lost()
    }

    pub(super) fn handover<M: Mapped>(scene: &mut Scene<'_, M>) {
        let region = scene.region_as::<Fram>();
        let turns = scene.rounds(ROUNDS).into();
        let (kernel, mut threads) = ok!(scene, Plan::open(region));
        let (places, _) = ok!(scene, threads.share());
        let mut stacks = [const { Stack::<STACK>::NEW }; 2];
        let mut port = Core::new(&mut stacks);
        Plan::spawn(
            &kernel,
            places,
            &mut port,
            |th| produce(th, turns),
            |th| consume(th, turns),
        );
        let on_tick = match scene.argument() {
            REGISTER_LOST => on_tick_lost,
            _ => on_tick,
        };
        run(scene, &kernel, port, on_tick);
        check!(scene, u32::from(scene.read_cell(SENT)) == turns);
        check!(scene, u32::from(scene.read_cell(RECEIVED)) == turns);
    }
}

/// Where there is none.
#[cfg(not(any(
    target_arch = "msp430",
    all(target_os = "none", any(target_arch = "arm", target_arch = "riscv32"))
)))]
mod machine {
    use crate::{Mapped, Scene};

    pub(super) fn handover<M: Mapped>(scene: &mut Scene<'_, M>) {
        let code = const { crate::code(file!(), line!()) };
        scene.fail(code, "the kernel has no port for this machine")
    }
}
#[cfg(not(all(target_os = "none", target_abi = "eabihf")))]
mod costs {
    pub(super) use super::machine::handover as measure;
}
#[cfg(not(all(target_os = "none", any(target_arch = "arm", target_arch = "riscv32"))))]
mod places {
    pub(super) use super::machine::handover as places;
}
