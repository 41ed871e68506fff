//! On a host: runs a program as its builds do, and cuts it.

use crate::support::{BYTES, Fram, Machine};
use core::mem::MaybeUninit;
use nv_rtos::nvmem::Region;
use powerfail::{EveryEvents, Explore, Mapped, Summary, World, endure, explore};

/// A boot of a program: what it finds, if all of its threads come to their end.
pub type Boot = for<'a, 'm> fn(Region<'a, Fram>, &'a Machine<'m>) -> Option<[u32; 4]>;

/// A program, and what it must find.
pub trait Program: 'static {
    /// On the kernel.
    const PROTECTED: Boot;
    /// Without protection, if there is such a build.
    const UNPROTECTED: Option<Boot> = None;
    /// Its results.
    fn reference() -> [u32; 4];

    /// Runs it in RAM without protection, once, if it has such a build, and in non-volatile memory
    /// with protection. The power fails so many times: in each boot after a random number of
    /// events, on average `events`.
    ///
    /// **Panics**: it finds something else than the reference, or does not come to its end.
    fn cut(cuts: u64, events: u64) -> Summary {
        let program = |memory: Region<'_, Fram>, world: &World<'_, u32>| {
            let machine = &Machine { world };
            let wanted = Some(Self::reference());
            match world.with(|n| *n) {
                0 => {
                    let unprotected = Self::UNPROTECTED.into_iter();
                    let each = unprotected.flat_map(|boot| [(boot, 0), (boot, u64::MAX)]);
                    for (boot, garbage) in each {
                        let mut ram = [MaybeUninit::new(garbage); BYTES / 8];
                        assert_eq!(boot(Region::new(&mut ram), machine), wanted);
                    }
                    world.update(|n| *n = 1);
                }
                // It has come to its end: it begins anew, on a blank memory.
                n if n % 2 == 0 => {
                    for at in (0..memory.len()).step_by(4) {
                        // SAFETY: a unit of the region, of which nothing is lent.
                        unsafe {
                            // A life may be too short to erase all.
                            if memory.load(at) != 0 {
                                memory.store(at, 0);
                            }
                        }
                    }
                    world.update(|n| *n += 1);
                }
                _ => {}
            }
            assert_eq!((Self::PROTECTED)(memory, machine), wanted);
            // Twice the number of ends, and 1 while it runs.
            world.update(|n| *n += 1);
        };
        let memory = Mapped::<Fram>::new(BYTES);
        endure(memory, EveryEvents(events), program, |n| n / 2)
            .boots(cuts)
            .progress_within(cuts.min(200))
            .run()
    }

    /// Runs it with a cut at each event, and in each life after that, so deep. Of the states that
    /// the last cut leaves, one in so many is booted.
    ///
    /// **Panics**: as above.
    fn explore(depth: u32, one_in: u32) -> Summary {
        campaign::<Self>()
            .depth(depth)
            .max_depth(depth)
            .limit(4)
            .one_in(one_in)
            .run()
    }

    /// Runs it with each schedule of its threads that leaves the default one once: another thread
    /// comes in between at one point. Then it cuts each of these runs at each event, so deep; each
    /// life after a cut has all schedules, too. Of the states that the last cut leaves, one in so
    /// many is booted.
    ///
    /// **Panics**: as above; or no other thread can come in between.
    fn preempt(depth: u32, one_in: u32) -> Summary {
        campaign::<Self>()
            .preemptions(1)
            .depth(depth)
            .max_depth(depth)
            .limit(1)
            .one_in(one_in)
            .run()
    }
}

/// A campaign of a program, which must find what the reference finds in each life.
fn campaign<P: Program + ?Sized>() -> Explore<Mapped<Fram>, u32> {
    let program = |memory: Region<'_, Fram>, world: &World<'_, u32>| {
        let found = (P::PROTECTED)(memory, &Machine { world });
        assert_eq!(found, Some(P::reference()));
    };
    explore(Mapped::<Fram>::new(BYTES), program)
}
