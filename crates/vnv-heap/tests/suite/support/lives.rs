//! Shared by the suites of the collections: saving a heap, and programs of rounds that are cut.

use nvmem::{Medium, Persist};
use std::fmt::Debug;
use vnv_heap::{Heap, JustInTime, Snapshot};

/// Saves the heap in the way of its promise.
pub trait Save {
    fn save(&mut self);
}
impl<'h, R: Persist<At<'h> = R>, S: Medium<Error: Debug>> Save for Heap<'h, R, S, JustInTime> {
    fn save(&mut self) {
        self.persist().unwrap();
        self.restore().unwrap();
    }
}
impl<'h, R: Persist<At<'h> = R>, S: Medium<Error: Debug>> Save for Heap<'h, R, S, Snapshot> {
    fn save(&mut self) {
        self.commit().unwrap();
    }
}

/// The world's knowledge of a program of rounds.
#[derive(Clone, Hash, Debug, Default)]
pub struct Promised {
    pub saved: u32,
    pub tried: u32,
    pub changing: bool,
}

pub const ROUNDS: u32 = 3;

/// The heap holds the last save, or the one being made, and nothing leaks. Then the program runs to
/// the end: `round` does one round, `look` counts and checks the rounds.
macro_rules! live {
    ($heap:expr, $world:expr, $round:ident, $look:ident) => {{
        let (heap, world) = ($heap, $world);
        let mut n = $look(heap);
        let p = world.get();
        assert!(n == p.saved || n == p.tried, "{n} is there, {p:?}");
        let settled = |n| Promised {
            saved: n,
            tried: n,
            changing: false,
        };
        world.set(settled(n));
        let audit = heap.audit().unwrap();
        assert_eq!(audit.reachable, audit.allocated, "leaked");
        while n < ROUNDS {
            world.update(|p| p.changing = true);
            $round(heap);
            n = $look(heap);
            world.update(|p| p.tried = n);
            heap.save();
            world.set(settled(n));
        }
        let audit = heap.audit().unwrap();
        assert_eq!(audit.reachable, audit.allocated, "leaked");
    }};
}

/// The tests that cut such a program in both promises: `root` makes its root.
macro_rules! cut {
    ($type:ident, $root:ident, $config:expr, $round:ident, $look:ident) => {
        #[test]
        fn cut_just_in_time() {
            let s = explore(
                Simulated::<SpiFram>::new(2048),
                |mut nv, world: &World<Promised>| {
                    let mut ram = [0u8; 512];
                    brand!(b);
                    match Heap::<$type, _, JustInTime>::open(b, &mut nv, &mut ram, $config, $root) {
                        Ok(mut heap) => live!(&mut heap, world, $round, $look),
                        // The just-in-time promise: open reports the interruption. The program
                        // chooses what to do.
                        Err(OpenError::Interrupted) => assert!(world.with(|p| p.changing)),
                        Err(e) => panic!("{e:?}"),
                    }
                },
            )
            .depth(2)
            .run();
            println!("{s}");
            assert!(s.partial || s.cuts > 300, "{s}");
        }

        #[test]
        fn cut_snapshot() {
            let s = explore(
                Simulated::<SpiFram>::new(2048),
                |mut nv, world: &World<Promised>| {
                    let mut ram = [0u8; 512];
                    brand!(b);
                    let open = Heap::<$type, _, Snapshot>::open;
                    let mut heap = open(b, &mut nv, &mut ram, $config, $root).unwrap();
                    live!(&mut heap, world, $round, $look);
                },
            )
            .depth(2)
            .max_depth(2)
            .run();
            println!("{s}");
            assert!(s.partial || s.cuts > 1000, "{s}");
        }
    };
}
