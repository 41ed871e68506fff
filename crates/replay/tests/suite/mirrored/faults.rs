//! A medium that fails, a save while another transaction is open, and what savers do when idle.

use super::media::config;
use super::node::{MEMORY, Outside, W, open, quiet, station};
use core::mem::MaybeUninit;
use nv_mirror::{Config, Durability, Mirror, MirrorError};
use nv_replay::nvmem::at_rest::SharedSaver;
use nv_replay::nvmem::device::{Contract, Medium};
use nv_replay::nvmem::ram::RamFram;
use nv_replay::nvmem::{InOrder32, Ram, Region};
use nv_replay::pmem_tx::{self, Contexts, Sharing};
use nv_replay::{Error, NotNow, OpenError, Options, Threads};
use powerfail::{Mapped, explore_with};

type Chip = RamFram<8192>;

/// A chip whose writes fail from some on.
struct Failing<'c> {
    chip: &'c mut Chip,
    left: u32,
}
#[derive(Debug, PartialEq)]
struct Failed;
impl Medium for Failing<'_> {
    type Error = Failed;
    const CONTRACT: Contract = <Chip as Medium>::CONTRACT;
    fn capacity(&self) -> u32 {
        self.chip.capacity()
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Failed> {
        self.chip.read(at, buf).map_err(|_| Failed)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Failed> {
        self.left = self.left.checked_sub(1).ok_or(Failed)?;
        self.chip.write(at, bytes).map_err(|_| Failed)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Failed> {
        self.chip.erase(from, to).map_err(|_| Failed)
    }
}

const OUTPUT: Config = config(2, Durability::BeforeOutput);
const EACH: Config = config(2, Durability::EachCommit);

/// Runs `f` with a world that no power cut ends.
fn with_world(f: fn(&W<'_>)) {
    let media = Mapped::<InOrder32>::new(64);
    explore_with(f, media, |_, world: &W<'_>, f| f(world))
        .depth(0)
        .run();
}

/// The medium fails at each write: the runtime stops with an error that says so, what was seen
/// stays, and on a medium that works again the program ends as it would have.
#[test]
fn a_medium_that_fails() {
    with_world(|world| {
        for config in [OUTPUT, EACH] {
            for left in 0.. {
                world.set(Outside::default());
                let mut chip = Chip::filled(0);
                let mut ended = false;
                // The third boot has a medium that works.
                for left in [left, left / 2, u32::MAX] {
                    let mut memory = MEMORY;
                    let nv = Failing {
                        chip: &mut chip,
                        left,
                    };
                    let all = 0..nv.capacity();
                    let (mirror, region) = Mirror::open(nv, all, &config, &mut memory).unwrap();
                    let mut rt = match open(region, mirror, world, 16) {
                        Ok(rt) => rt,
                        // Messages are pending.
                        Err(e) => {
                            assert_eq!(e, OpenError::Medium);
                            continue;
                        }
                    };
                    assert!(rt.failure().is_none());
                    match station(&mut rt, 3) {
                        Ok(()) => ended = true,
                        Err(e) => {
                            assert_eq!((e, left < u32::MAX), (Error::Medium, true));
                            assert_eq!(rt.failure(), Some(&MirrorError::Medium(Failed)));
                            assert_eq!(rt.durable(), Err(Error::Medium));
                            assert_eq!(rt.record(1u32), Err(Error::Medium));
                            let drained = rt.drain();
                            assert_eq!(drained, if rt.waits() { Err(NotNow) } else { Ok(()) });
                        }
                    }
                }
                assert!(ended);
                assert_eq!(world.with(|w| w.received.len()), 3);
                if left > 400 {
                    break;
                }
            }
        }
    })
}

/// Room is made when the program is idle; then a save begins no segment.
#[test]
fn room_when_idle() {
    with_world(|world| {
        let mut chip = Chip::filled(0);
        let mut memory = MEMORY;
        let all = 0..chip.capacity();
        let (mut mirror, region) = Mirror::open(&mut chip, all, &OUTPUT, &mut memory).unwrap();
        let mut rt = open(region, &mut mirror, world, 16).unwrap();
        quiet(&mut rt, 40).unwrap();
        let most = Config::worst_save(768, &<Chip as Medium>::CONTRACT).bytes;
        let room = rt.save_by(|mirror, owner| {
            mirror.make_room(owner).unwrap();
            mirror.room()
        });
        assert!(room >= most, "{room} {most}");
        rt.record(5u32).unwrap();
        rt.durable().unwrap();
        let after = rt.save_by(|mirror, _| mirror.room());
        assert!(after < room && after > room - 100, "{after} {room}");
    })
}

type Two = Sharing<(u32,), Contexts<(u32, [u32; 4])>>;

fn threads<'m>(region: Region<'m, Ram>) -> Threads<'m, Two, Ram> {
    let table = nv_replay::Config {
        bytes: 64,
        outbox_bytes: 16,
        seq_bits: 8,
    };
    let pool = Some(pmem_tx::Config::SMALL);
    Threads::<Two, Ram>::open(region, table, pool, |_| Ok(((0,), (0, [0; 4]))))
        .map_err(|refused| refused.error)
        .unwrap()
}

/// A thread saves while a transaction of another one is open: the journal of that one is saved too.
/// The save covers the commits of both (group commit).
#[test]
fn with_another_transaction_open() {
    let mut chip = Chip::filled(0);
    let all = 0..chip.capacity();
    for boot in 0..2 {
        let mut memory = [MaybeUninit::new(0); 2 * 150];
        let (mirror, region) = Mirror::open(&mut chip, all.clone(), &OUTPUT, &mut memory).unwrap();
        let saver = SharedSaver::new(mirror);
        let mut threads = threads(region);
        let ((first, second), _) = threads.share().unwrap();
        let mut a = first.open_mirrored(&saver, Options::default(), ()).unwrap();
        let mut b = second
            .open_mirrored(&saver, Options::default(), ())
            .unwrap();
        if boot == 1 {
            // The first step of each was committed and saved, the second ones were not.
            let seen = a.step((), |tx, n, ()| Ok(*n.get(tx) + 100)).unwrap();
            assert_eq!(seen, 1, "the recorded result");
            assert_eq!(b.step(7u32, |_, _, _| Ok(())).map_err(|e| e.error), Ok(()));
            assert!(a.is_live() && b.is_live());
            let n = a.step((), |tx, n, ()| Ok(*n.get(tx))).unwrap();
            let m = b.step(8u32, |tx, m, _| Ok(*m.get(tx))).unwrap();
            assert_eq!((n, m), (1, [7, 0, 0, 0]));
            break;
        }
        let n = a
            .step((), |tx, n, ()| {
                *n.get_mut(tx)? += 1;
                Ok(*n.get(tx))
            })
            .unwrap();
        assert_eq!(n, 1);
        b.step(7u32, |tx, m, k| {
            m.get_mut(tx)?[0] += k;
            Ok(())
        })
        .unwrap();
        a.step_join(
            (),
            |tx, n, ()| {
                *n.get_mut(tx)? += 50;
                Ok(())
            },
            |(), commit| {
                // This transaction is open while the other thread saves; then the power fails.
                b.durable().unwrap();
                let _ = commit;
                Err(Error::Aborted(1))
            },
        )
        .unwrap_err();
    }
}
