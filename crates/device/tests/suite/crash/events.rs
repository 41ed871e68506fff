//! Interrupts at every point of a program, and power cuts at every point of both.
//!
//! Each event that the ring has taken is handled in order, and once; what it had no room for is
//! counted.

use crate::crash::world::Outside;
use crate::crash::{BYTES, Tested, on_each, split};
use nv_device::nv_replay::{Config, Options, Replay, last_committed};
use nv_device::nvmem::{Persist, Region};
use nv_device::{Committed, Devices, Events, Members, Posted, Ring, Set, open, within};
use powerfail::{Mapped, World, explore, masked};

#[derive(Persist)]
#[repr(C)]
struct Handled {
    times: [u8; 4],
    last: u8,
    lost: u8,
    disordered: u8,
    spare: u8,
}

struct Buttons<'m, M>(Events<'m, 2, M>);
impl<M: Tested> Devices for Buttons<'_, M> {
    fn list(&self) -> impl Members {
        within(|f| masked(|| f(&self.0)))
    }
}

fn press<M: Tested>(ring: &Events<'_, 2, M>, world: &World<'_, Outside>) {
    // As many as the ring holds, and one more.
    for _ in 0..3 {
        let n = world.with(|w| w.posted.len() as u8);
        if n >= 4 {
            return;
        }
        world.update(|w| *w.numbered.entry(n).or_default() += 1);
        match masked(|| ring.post(n.into())) {
            Posted::Stored => world.update(|w| w.posted.push(n)),
            Posted::Counted => world.update(|w| w.refused += 1),
            Posted::Refused => panic!("the ring is in use"),
        }
    }
}

fn boot<M: Tested>(region: Region<'_, M>, world: &World<'_, Outside>) {
    let (contexts, rest) = split(region);
    let number = last_committed(&rest).expect("a table");
    let committed = Committed::of(number, &Config::SMALL);
    let (ring,) = open::<(Ring<2>,), _>(contexts, committed, ((),)).expect("opens");
    let set = Set::new(Buttons(ring));
    // Each boot begins anew: what waits is not known to a replay.
    let options = Options {
        table: Config::SMALL,
        start_over: true,
        ..Options::default()
    };
    let mut rt = Replay::<Handled, M, _>::open_with(rest, options, (), |_| {
        Ok(Handled {
            times: [0; 4],
            last: 0,
            lost: 0,
            disordered: 0,
            spare: 0,
        })
    })
    .unwrap_or_else(|r| panic!("{}", r.error));
    let mut handle = |i: u32| {
        rt.step_with(&set, i, |step, handled, _| {
            let ring = &step.token().0;
            let (event, lost) = masked(|| (ring.take(step), ring.lost(step)));
            let (event, lost) = (event?, lost?);
            let handled = handled.get_mut(step)?;
            if let Some(e) = event {
                handled.times[e.value as usize] += 1;
                handled.disordered |= u8::from((e.value as u8) < handled.last);
                handled.last = e.value as u8;
            }
            handled.lost += lost;
            Ok(())
        })
        .expect("the step")
    };
    world.interrupted(|| press(&set.0, world), || handle(0));
    for i in 1.. {
        if set.0.waiting() == 0 {
            break;
        }
        handle(i);
    }
    handle(0);
    rt.view(|tx, handled| {
        let h = handled.get(tx);
        let (posted, offered, refused) =
            world.with(|w| (w.posted.clone(), w.numbered.clone(), w.refused));
        assert_eq!(h.disordered, 0, "events came in another order");
        for n in 0..4 {
            let (times, offers) = (h.times[n as usize], offered.get(&n).copied().unwrap_or(0));
            let least = u8::from(posted.contains(&n));
            assert!(times >= least, "event {n} was lost");
            assert!(times <= offers, "event {n} was handled twice");
        }
        assert!(h.lost >= refused, "{} losses, {} told", refused, h.lost);
    })
    .expect("the view");
}

fn run<M: Tested>() {
    let s = explore(Mapped::<M>::new(BYTES), boot)
        .preempt()
        .depth(2)
        .max_depth(2)
        .sample(8)
        .run();
    assert!(s.points > 10);
}
on_each!(buttons, run);
