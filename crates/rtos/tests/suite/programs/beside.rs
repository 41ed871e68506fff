// Something beside the kernel takes part in steps: a switch that the world sees. And a handler
// wakes threads that look for one press, which comes once in all lives: a wake-up that is lost is
// missed for good.

use nv_rtos::nv_replay::{Commit, Committed};
use nv_rtos::nvmem::NumberOwner;
use nv_rtos::{Joiner, wait_until, wait_until_timeout};

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 96, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        PERMIT: Semaphore = (1, 1);
        DONE: Semaphore = (0, 1);
    }
    threads {
        main(u32 = 0): 1;
        other(u32 = 0): 2;
    }
    reserve {
        spare(u32 = 0, u32): 3;
    }
}

const REFUSED: u32 = 77;

struct Beside<'a, 'w> {
    w: &'a World<'w, Seen>,
    of: Option<NumberOwner>,
    /// What the running step wants.
    wants: Cell<u32>,
    /// What the steps of this life have committed.
    joined: Cell<u32>,
}

impl<M: Model> Joiner<M> for Beside<'_, '_> {
    fn join_by<'c>(
        &self,
        commit: Commit<'c, M>,
        store: impl FnOnce(Commit<'c, M>) -> Result<Committed<'c>, Error>,
    ) -> Result<Committed<'c>, Error> {
        let wants = self.wants.take();
        if wants == REFUSED {
            return Err(Error::Aborted(REFUSED as u16));
        }
        let done = store(commit)?;
        self.joined.set(self.joined.get() + wants);
        Ok(done)
    }
    fn undone(&self) {
        self.wants.set(0);
    }
    fn owner(&self) -> Option<NumberOwner> {
        self.of
    }
}

impl<'a, 'w> Beside<'a, 'w> {
    fn new(w: &'a World<'w, Seen>, of: Option<NumberOwner>) -> Self {
        let (wants, joined) = (Cell::new(0), Cell::new(0));
        Beside { w, of, wants, joined }
    }
    /// Whether the press was there. Behind the look is a point.
    fn pressed(&self) -> Option<u32> {
        powerfail::masked(|| self.w.with(|s| (s.given > 0).then_some(s.given)))
    }
}

fn main(th: &mut Thread<Plan, u32>, beside: &mut Beside<'_, '_>) -> Result<(), Error> {
    // Refused by what is beside the kernel: the permit is there again.
    let refused = th.step_with(beside, 0, |step, n, _| {
        *n.get_mut(step)? += 100;
        PERMIT.take(&step.inner())?;
        step.token().wants.set(REFUSED);
        Ok(())
    });
    assert_eq!(refused.map_err(|e| e.error), Err(Error::Aborted(REFUSED as u16)));
    // The body fails: what is beside the kernel gives up what it wanted.
    let failed = th.step_with(beside, 1, |step, _, _| {
        PERMIT.take(&step.inner())?;
        step.token().wants.set(10);
        Err::<(), _>(step.abort(7))
    });
    assert_eq!(failed.map_err(|e| e.error), Err(Error::Aborted(7)));
    assert_eq!(beside.wants.get(), 0);
    let none = th.step_with(beside, 2, |step, _, _| {
        let found = wait_until_timeout(&step.inner(), 2, || Ok(None::<u32>))?;
        Ok(u32::from(found.is_some()))
    })?;
    assert_eq!(none, 0, "nobody finds it");
    let live = th.is_live();
    let got = th.step_with(beside, 3, |step, n, _| {
        *n.get_mut(step)? += 1;
        assert!(PERMIT.try_take(&step.inner())?, "a step that has failed has kept it");
        step.token().wants.set(1);
        wait_until(&step.inner(), || Ok(step.token().pressed()))
    })?;
    assert_eq!(got, 1);
    if live {
        assert_eq!(beside.joined.get(), 1);
    }
    th.each_step_with(beside, 0..2, (), |step, n, i, ()| {
        *n.get_mut(step)? += 1;
        if i == 1 {
            Plan::spare().spawn(&step.inner(), 5)?;
        }
        Ok(())
    })?;
    th.step(4, |sys, _, _| DONE.take(sys))?;
    assert_eq!(th.view(|tx, n| *n.get(tx))?, Some(3));
    Ok(())
}

/// It is woken, too, and what is beside the kernel of `main` is not its own.
fn other(th: &mut Thread<Plan, u32>, w: &World<'_, Seen>) -> Result<(), Error> {
    let mut beside = Beside::new(w, Some(NumberOwner::PROGRAM));
    let refused = th.step_with(&mut beside, 1, |_, _, _| Ok(()));
    assert_eq!(refused.map_err(|e| e.error), Err(Error::WrongOwner));
    beside.of = Some(th.owner());
    let got = th.step_with(&mut beside, 0, |step, _, _| {
        wait_until(&step.inner(), || Ok(step.token().pressed()))
    })?;
    assert_eq!(got, 1);
    Ok(())
}

/// A thread of a reserved place has no such steps.
fn spare(th: &mut Thread<Plan, u32>, job: u32, w: &World<'_, Seen>) -> Result<(), Error> {
    assert_eq!(job, 5);
    let mut beside = Beside::new(w, None);
    let refused = th.step_with(&mut beside, 1, |_, _, _| Ok(()));
    let error = refused.map_err(|e| e.error);
    assert_eq!(error, Err(Error::Aborted(code::NOT_OF_THREAD)));
    th.step((), |sys, _, ()| DONE.give(sys))?;
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    let (kernel, mut threads) = Plan::open(nv).unwrap();
    let of_main = threads.last_committed(0).unwrap().owner();
    let (places, _) = threads.share().unwrap();
    let machine = Machine::default();
    let mut beside = Beside::new(w, Some(of_main));
    w.threads(|t| {
        let (kernel, beside) = (&kernel, &mut beside);
        let kit = machine.start(t, kernel, |kit| {
            Plan::spawn(
                kernel,
                places,
                kit,
                |th| main(th, beside),
                |th| other(th, w),
                |th, job| spare(th, job, w),
            );
        });
        t.interrupt("press", move || {
            if w.with(|s| s.given) == 0 {
                w.update(|s| s.given = 1);
                let isr = kernel.isr(&kit);
                Plan::main().wake_from_isr(&isr);
                Plan::other().wake_from_isr(&isr);
            }
        });
    });
    (0..2).for_each(|t| assert_eq!(kernel.ended(t), Some(Ok(()))));
}
