//! Two threads of the kernel, with an object of each kind.
//!
//! Their steps are those of `rtos_threads`, which has no kernel: the difference is the kernel's.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod program {
    use core::hint::black_box;
    use nv_rtos::{Error, Port, Room, Spawn, Thread, Until};

    nv_rtos::system! {
        /// Numbers and their sum.
        Plan on size_probes::Threaded;
        table { bytes: 64, outbox_bytes: 0, seq_bits: 8 }
        objects {
            NUMBERS: Queue<[u32; 2], 8>;
            ROOM: Semaphore = (8, 8);
            DONE: Events;
            BUS: Mutex;
        }
        threads {
            first(u32 = 0): 1;
            second(u32 = 0): 2;
        }
    }

    fn first(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
        th.each_step(0..10, (), |sys, count, i, ()| {
            ROOM.take(sys)?;
            *count.get_mut(sys)? += 1;
            NUMBERS.send(sys, [i, !i])
        })?;
        let _guard = th.lock(&BUS)?;
        th.step((), |sys, _, ()| DONE.wait(sys, 1, Until::Any).map(drop))?;
        th.delay(10)
    }

    fn second(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
        th.each_step(0..10, (), |sys, sum, _, ()| {
            let [i, _] = NUMBERS.receive(sys)?;
            *sum.get_mut(sys)? += i;
            ROOM.give(sys)
        })?;
        let _guard = th.lock(&BUS)?;
        th.step((), |sys, _, ()| DONE.set(sys, 1))?;
        th.delay(10)
    }

    /// Runs one thread after the other.
    struct Quiet;
    // SAFETY: its functions do nothing.
    unsafe impl Port for Quiet {
        fn now(&self) -> u64 {
            black_box(0)
        }
        fn switch(&self, to: Option<usize>) {
            black_box(to);
        }
        fn set_timer(&self, at: Option<u64>) {
            black_box(at);
        }
    }
    impl<'s> Spawn<'s> for Quiet {
        fn spawn(&mut self, _: usize, _: &'static str, body: impl FnOnce(&dyn Port) + 's) {
            body(&Quiet)
        }
    }

    pub fn run() {
        let mut room = Room::new();
        if let Some(r) = size_probes::region_as()
            && let Ok((kernel, threads)) = Plan::open_in(&mut room, r)
            && let Ok((places, _)) = threads.share()
        {
            Plan::spawn(kernel, places, &mut Quiet, first, second);
            kernel.start(&Quiet);
            kernel.tick(&Quiet);
            kernel.slice(&Quiet);
        }
    }
}

size_probes::probe!({ program::run() });
