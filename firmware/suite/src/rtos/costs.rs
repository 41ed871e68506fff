//! What the kernel's calls cost: measured sections, each several times; the highest figure counts.

use crate::abi::{figure, section};
use crate::{Mapped, Scene, check, machine, ok};
use nv_rtos::cortex_m::{Cortex, Masked, Stack};
use nv_rtos::pmem_tx::Preempted;
use nv_rtos::{Error, Kernel, Thread, Until};

type Here = Scene<'static, machine::Model>;
type Fram = Preempted<machine::Model, Masked>;

nv_rtos::system! {
    /// What is measured. One thread makes the calls, the other one takes part in the switch.
    Plan on Fram;
    table { bytes: 192, outbox_bytes: 0, seq_bits: 12 }
    objects {
        SEMAPHORE: Semaphore = (0, 8);
        QUEUE: Queue<[u32; 2], 8>;
        FLAGS: Events;
        MUTEX: Mutex;
    }
    threads {
        first(u32 = 0): 1;
        second(u32 = 0): 1;
    }
}

/// The same with two threads more: what each takes of the kernel is half of the difference.
mod four {
    use super::Fram;

    nv_rtos::system! {
        /// Nobody runs it.
        pub(super) Plan on Fram;
        table { bytes: 192, outbox_bytes: 0, seq_bits: 12 }
        objects {
            SEMAPHORE: Semaphore = (0, 8);
            QUEUE: Queue<[u32; 2], 8>;
            FLAGS: Events;
            MUTEX: Mutex;
        }
        threads {
            first(u32 = 0): 1;
            second(u32 = 0): 1;
            third(u32 = 0): 1;
            fourth(u32 = 0): 1;
        }
    }
}

fn section(n: u16) {
    Here::next_section_anywhere(n);
}

fn calls(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    let scene = Here::anywhere();
    th.each_step(0..6, (), |_, _, _, ()| {
        section(section::RTOS_STEP);
        Ok(())
    })?;
    scene.end_section();
    th.each_step(0..6, (), |sys, _, i, ()| {
        section(section::RTOS_SEND);
        QUEUE.send(sys, [i, !i])
    })?;
    scene.end_section();
    th.each_step(0..6, (), |sys, _, i, ()| {
        section(section::RTOS_RECEIVE);
        let message = QUEUE.receive(sys)?;
        check!(Here::anywhere(), message == [i, !i]);
        Ok(())
    })?;
    scene.end_section();
    th.each_step(0..6, (), |sys, _, _, ()| {
        section(section::RTOS_GIVE);
        SEMAPHORE.give(sys)
    })?;
    scene.end_section();
    th.each_step(0..6, (), |sys, _, _, ()| {
        section(section::RTOS_TAKE);
        SEMAPHORE.take(sys)
    })?;
    scene.end_section();
    th.each_step(0..6, (), |sys, _, i, ()| {
        section(section::RTOS_EVENT);
        FLAGS.set(sys, 1 << i)
    })?;
    scene.end_section();
    th.each_step(0..6, (), |sys, _, i, ()| {
        section(section::RTOS_EVENT_WAIT);
        FLAGS.wait(sys, 1 << i, Until::All).map(drop)
    })?;
    scene.end_section();
    for _ in 0..2 {
        scene.next_section(section::RTOS_LOCK_UNLOCK);
        drop(th.lock(&MUTEX)?);
        scene.end_section();
        scene.next_section(section::RTOS_DELAY);
        th.delay(0)?;
        scene.end_section();
    }
    // The second one begins.
    th.yield_now();
    for _ in 0..3 {
        scene.next_section(section::RTOS_SWITCH);
        th.yield_now();
    }
    Ok(())
}

/// Goes on when the first thread yields.
fn goes_on(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    for _ in 0..3 {
        th.yield_now();
        Here::anywhere().end_section();
    }
    let unused = th.unused_stack();
    check!(
        Here::anywhere(),
        unused.is_some_and(|bytes| (1..2048).contains(&bytes))
    );
    Ok(())
}

pub(super) fn measure<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region_as::<Fram>();
    let (kernel, mut threads) = ok!(scene, Plan::open(region));
    let (places, _) = ok!(scene, threads.share());
    let mut stacks = [const { Stack::<2048>::NEW }; 2];
    let mut port = Cortex::new(&mut stacks);
    Plan::spawn(&kernel, places, &mut port, calls, goes_on);
    check!(scene, port.run(&kernel, None));
    let kernel_of = (size_of::<Kernel<'_, four::Plan>>() - size_of::<Kernel<'_, Plan>>()) / 2;
    let each = kernel_of + size_of::<Thread<Plan, u32>>();
    scene.figure(figure::RTOS_RAM_PER_THREAD, each as u16);
    check!(scene, (0..2).all(|t| kernel.ended(t) == Some(Ok(()))));
}
