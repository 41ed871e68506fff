//! Whole programs on the kernel of `nv-rtos`: those of `examples/programs`, each in three builds.
//!
//! | scenario of `mq` | kernel | memory |
//! |---|---|---|
//! | `mq_protected` | `nv-rtos` | non-volatile; cut after seeded periods |
//! | `mq_unprotected` | one without protection | non-volatile |
//! | `mq_volatile` | the same | RAM |
//!
//! What a program finds is reported: the rig compares it with the plain reference. If there is a
//! timer, as in QEMU, it ticks, and the program compares by itself.

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
                        scenarios: &[
                            Scenario::periods(
                                concat!(stringify!($program), "_protected"),
                                BYTES,
                                on::$program::protected,
                            ),
                            Scenario::whole(
                                concat!(stringify!($program), "_unprotected"),
                                BYTES,
                                on::$program::unprotected,
                            ),
                            Scenario::whole(
                                concat!(stringify!($program), "_volatile"),
                                BYTES,
                                on::$program::volatile,
                            ),
                        ],
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
            use super::machine::{found, ram};
            use super::reference;
            use crate::{Mapped, Scene};
            use example_programs as programs;

            $(
                pub(super) mod $program {
                    use super::*;
                    use programs::{protected, unprotected};

                    pub fn protected<M: Mapped>(scene: &mut Scene<'_, M>) {
                        let region = scene.region_as();
                        found(scene, |m| protected::$program::boot(region, m), reference::$program);
                    }
                    pub fn unprotected<M: Mapped>(scene: &mut Scene<'_, M>) {
                        let region = scene.region_as();
                        found(scene, |m| unprotected::$program::boot(region, m), reference::$program);
                    }
                    pub fn volatile<M: Mapped>(scene: &mut Scene<'_, M>) {
                        let mut ram = ram();
                        let region = nvmem::Region::new(&mut ram);
                        found(scene, |m| unprotected::$program::boot(region, m), reference::$program);
                    }
                }
            )+
        }

        /// There is no port for this machine.
        #[cfg(not(all(
            target_os = "none",
            any(target_abi = "eabihf", target_arch = "riscv32")
        )))]
        mod on {
            $(
                pub(super) mod $program {
                    pub use super::super::none::{
                        none as protected, none as unprotected, none as volatile,
                    };
                }
            )+
        }
    };
}

programs! {
    /// Message queues.
    mq_group, "program-mq": mq;
    /// An event group.
    em_group, "program-em": em;
    /// Bit counts.
    bc_group, "program-bc": bc;
    /// A multi-layer perceptron.
    mlp_group, "program-mlp": mlp;
    /// A software timer.
    sen_group, "program-sen": sen;
    /// A key-value store.
    kv_group, "program-kv": kv;
    /// A pipeline into a table.
    etl_group, "program-etl": etl;
    /// Predictions.
    pred_group, "program-pred": pred;
    /// Statistics.
    stats_group, "program-stats": stats;
    /// Training.
    train_group, "program-train": train;
    /// Activity recognition.
    ar_group, "program-ar": ar;
}

const BYTES: usize = example_programs::support::BYTES;

#[cfg(all(
    target_os = "none",
    any(target_abi = "eabihf", target_arch = "riscv32")
))]
pub(crate) mod machine {
    use super::BYTES;
    use crate::abi::{cell, figure, section};
    use crate::{Mapped, Scene, check, machine};
    use core::mem::MaybeUninit;
    use example_programs::support::Machine;
    #[cfg(target_arch = "arm")]
    use nv_rtos::cortex_m::systick as tick;
    #[cfg(target_arch = "riscv32")]
    use nv_rtos::riscv::tick;

    pub(super) fn ram() -> [MaybeUninit<u64>; BYTES / 8] {
        [MaybeUninit::uninit(); BYTES / 8]
    }

    /// Runs a program in two measured sections, and reports what it has found.
    pub(crate) fn found<M: Mapped>(
        scene: &Scene<'_, M>,
        boot: impl FnOnce(&Machine<'_>) -> Option<[u32; 4]>,
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
        let machine = &Machine {
            period: None,
            starts: &|| scene.next_section(section::PROGRAM),
            // Without a timer nothing else makes the time go on.
            idle: &|| {
                if machine::timer().is_none() {
                    tick();
                }
            },
        };
        scene.write_cell(cell::OPEN - cell::OWN, 1);
        scene.next_section(section::PROGRAM_OPEN);
        let found = boot(machine);
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
#[cfg(not(all(target_os = "none", target_abi = "eabihf")))]
pub(crate) mod none {
    use crate::{Mapped, Scene};

    pub fn none<M: Mapped>(scene: &mut Scene<'_, M>) {
        let code = const { crate::code(file!(), line!()) };
        scene.fail(code, "the program is not for this machine")
    }
}
