//! The programs of `lab/programs`, each in three builds.
//!
//! | scenario of `mq` | kernel | memory |
//! |---|---|---|
//! | `mq_protected` | `nv-rtos` | non-volatile; cut after seeded periods |
//! | `mq_unprotected` | one without protection | non-volatile |
//! | `mq_volatile` | the same | RAM |
//!
//! What a program finds is reported: the rig compares it with the plain reference. If there is a
//! timer, as in QEMU, it ticks, and the program compares by itself.

use lab_programs::reference;
#[cfg(all(
    target_os = "none",
    any(target_abi = "eabihf", target_arch = "riscv32")
))]
use lab_programs::support::{Fram, Machine};
use relume_suite::{Group, Mapped, Scenario};

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
            use super::{BYTES, reference, run};
            use core::mem::MaybeUninit;
            use lab_programs as programs;
            use relume_suite::{Mapped, Scene};

            fn ram() -> [MaybeUninit<u64>; BYTES / 8] {
                [MaybeUninit::uninit(); BYTES / 8]
            }

            $(
                pub(super) mod $program {
                    use super::*;
                    use programs::{protected, unprotected};

                    pub fn protected<M: Mapped>(scene: &mut Scene<'_, M>) {
                        let region = scene.region_as();
                        run(scene, region, protected::$program::boot, reference::$program);
                    }
                    pub fn unprotected<M: Mapped>(scene: &mut Scene<'_, M>) {
                        let region = scene.region_as();
                        run(scene, region, unprotected::$program::boot, reference::$program);
                    }
                    pub fn volatile<M: Mapped>(scene: &mut Scene<'_, M>) {
                        let mut ram = ram();
                        let region = nvmem::Region::new(&mut ram);
                        run(scene, region, unprotected::$program::boot, reference::$program);
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
                    pub use relume_suite::programs::none::{
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

const BYTES: usize = lab_programs::support::BYTES;

/// Runs a boot of a program, and reports what it has found.
#[cfg(all(
    target_os = "none",
    any(target_abi = "eabihf", target_arch = "riscv32")
))]
#[inline(always)]
pub(crate) fn run<M: Mapped>(
    scene: &relume_suite::Scene<'_, M>,
    region: nvmem::Region<'_, Fram>,
    boot: impl FnOnce(nvmem::Region<'_, Fram>, &Machine<'_>) -> Option<[u32; 4]>,
    reference: fn() -> [u32; 4],
) {
    let on_machine = |starts: &dyn Fn(), idle: &dyn Fn()| {
        let machine = &Machine {
            period: None,
            starts,
            idle,
        };
        boot(region, machine)
    };
    relume_suite::programs::machine::found(scene, on_machine, reference)
}
