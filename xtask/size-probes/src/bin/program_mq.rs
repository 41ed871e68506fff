//! `mq` of `examples/programs` as a whole, with the port of a Cortex-M4. Elsewhere there is
//! nothing.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(all(target_os = "none", target_abi = "eabihf"))]
mod program {
    use core::hint::black_box;
    use example_programs::mq;
    use example_programs::support::Machine;
    use nv_rtos::cortex_m;

    /// What the vector table has of the kernel.
    #[used]
    static PENDSV: unsafe extern "C" fn() = cortex_m::pendsv;
    #[used]
    static SYSTICK: extern "C" fn() = cortex_m::systick;

    pub fn run() {
        let machine = Machine {
            period: Some(16_000),
            starts: &|| (),
            idle: &|| (),
        };
        let found = size_probes::region_as().and_then(|r| mq::boot(r, &machine));
        black_box(found);
    }
}

#[cfg(all(target_os = "none", target_abi = "eabihf"))]
size_probes::probe!({ program::run() });
#[cfg(not(all(target_os = "none", target_abi = "eabihf")))]
size_probes::probe!({});
