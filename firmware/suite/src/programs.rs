//! Whole programs on the kernel of `nv-rtos`: those of `examples/programs`, cut after seeded
//! periods.
//!
//! What a program finds is reported: the rig compares it with the plain reference. If there is a
//! timer, as in QEMU, it ticks, and the program compares by itself. `lab/suite` runs more programs
//! so, and compares them with builds without protection.

use crate::{Group, Mapped, Scenario};
use example_programs::reference;

macro_rules! programs {
    ($($(#[$doc:meta])* $group:ident, $name:literal: $program:ident;)+) => {
        $(
            $(#[$doc])*
            pub const fn $group<M: Mapped>() -> Group<M> {
                const {
                    Group {
                        name: $name,
                        primitive: "nv-rtos",
                        scenarios: &[Scenario::periods(
                            concat!(stringify!($program), "_protected"),
                            BYTES,
                            on::$program,
                        )],
                    }
                }
            }
        )+

        /// What the program of a group must find.
        pub fn wanted(group: &str) -> Option<[u32; 4]> {
            match group {
                $($name => Some(reference::$program()),)+
                _ => None,
            }
        }

        #[cfg(all(
            target_os = "none",
            any(target_abi = "eabihf", target_arch = "riscv32")
        ))]
        mod on {
            use super::machine::found;
            use super::reference;
            use crate::{Mapped, Scene};
            use example_programs::support::Machine;

            $(
                pub(super) fn $program<M: Mapped>(scene: &mut Scene<'_, M>) {
                    let region = scene.region_as();
                    let boot = |starts: &dyn Fn(), idle: &dyn Fn()| {
                        let machine = &Machine { period: None, starts, idle };
                        example_programs::$program::boot(region, machine)
                    };
                    found(scene, boot, reference::$program);
                }
            )+
        }

        /// There is no port for this machine.
        #[cfg(not(all(
            target_os = "none",
            any(target_abi = "eabihf", target_arch = "riscv32")
        )))]
        mod on {
            $(pub(super) use super::none::none as $program;)+
        }
    };
}

programs! {
    /// Message queues.
    mq_group, "program-mq": mq;
    /// A pipeline into a table.
    etl_group, "program-etl": etl;
}

const BYTES: usize = example_programs::support::BYTES;

#[cfg(all(
    target_os = "none",
    any(target_abi = "eabihf", target_arch = "riscv32")
))]
/// How a program runs as a scenario.
pub mod machine {
    use crate::abi::{cell, figure, section};
    use crate::{Mapped, Scene, check, machine};
    #[cfg(target_arch = "arm")]
    use nv_rtos::cortex_m::systick as tick;
    #[cfg(target_arch = "riscv32")]
    use nv_rtos::riscv::tick;

    /// Runs a program in two measured sections, and reports what it has found. The program is given
    /// what it calls when its threads begin, and while none is ready.
    pub fn found<M: Mapped>(
        scene: &Scene<'_, M>,
        boot: impl FnOnce(&dyn Fn(), &dyn Fn()) -> Option<[u32; 4]>,
        reference: fn() -> [u32; 4],
    ) {
        machine::on_tick(|| {
            tick();
        });
        // SAFETY: start-up leaves them disabled if there is no timer.
        #[cfg(target_arch = "riscv32")]
        unsafe {
            core::arch::asm!("csrsi mstatus, 8")
        };
        let starts = || scene.next_section(section::PROGRAM);
        // Without a timer nothing else makes the time go on.
        let idle = || {
            if machine::timer().is_none() {
                tick();
            }
        };
        scene.write_cell(cell::OPEN - cell::OWN, 1);
        scene.next_section(section::PROGRAM_OPEN);
        let found = boot(&starts, &idle);
        scene.end_section();
        scene.write_cell(cell::OPEN - cell::OWN, 0);
        check!(scene, found.is_some());
        let found = found.unwrap_or_default();
        check!(scene, machine::timer().is_none() || found == reference());
        for (i, word) in (0..).zip(found) {
            scene.figure(figure::RESULTS + 2 * i, word as u16);
            scene.figure(figure::RESULTS + 2 * i + 1, (word >> 16) as u16);
        }
    }
}

/// Where there is no port, and of groups that are for one machine only, on the others.
pub mod none {
    use crate::{Mapped, Scene};

    /// Fails.
    pub fn none<M: Mapped>(scene: &mut Scene<'_, M>) {
        let code = const { crate::code(file!(), line!()) };
        scene.fail(code, "the program is not for this machine")
    }
}
