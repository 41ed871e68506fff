//! Scenarios of `nv-mirror`: a pool in RAM whose log is on a medium, and steps of `nv-replay` over
//! such a log. The region that survives is that medium, as serial FRAM or as flash; each word that
//! its driver writes can be cut.
//!
//! ```text
//! RAM   | pool | shadow |              a cut leaves garbage here
//!          | durable()
//!          v
//! NVM   | segment | segment | ... | one word beside the log
//! ```

use crate::flash::{self as nor, Flash};
use crate::{Group, Mapped, Scenario, Scene, check, ok, progress};
use core::mem::MaybeUninit;
use nv_mirror::{Config, Mirror};
use nv_replay::{Message, MirroredReplay, NotNow, Options, Outlet, Port};
use nvmem::Persist;
use nvmem::at_rest::{AtRest, Save};
use nvmem::device::{Contract, Medium};
use pmem_tx::{PBox, Pool, Width};

/// The scenarios of the image `mirror`.
pub const fn group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "mirror",
            primitive: "nv-mirror",
            scenarios: &[
                Scenario::long("fram", LOG + BESIDE, fram, 16),
                Scenario::long("steps", STEPS_LOG, steps, 64),
            ],
        }
    }
}

/// Those of the image `mirror-flash`: an MSP430 has no room for all in one.
pub const fn flash_group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "mirror-flash",
            primitive: "nv-mirror",
            scenarios: &[Scenario::torn("flash", 3 * SEGMENT + BESIDE, flash, 256)],
        }
    }
}

/// The mailbox's argument, a planted bug: the mailbox is told of a step before its save.
pub(crate) const EARLY: u16 = 21;
/// The driver keeps each write back until the next one comes, also when it is asked to flush.
pub(crate) const POSTED: u16 = 22;
/// The driver keeps the end of a base image back, and lets header, marker and confirmation pass.
pub(crate) const OVERTAKEN: u16 = 23;
/// The program keeps a part of its state beside the mirror.
pub(crate) const OUTSIDE: u16 = 24;
/// Messages leave before the step that has sent them is saved.
pub(crate) const UNSAVED: u16 = 25;

/// Words of 8 bytes in RAM: half of them is the image.
const MEMORY: usize = 2 * 44;
/// Bytes of the log on serial FRAM: two segments.
const LOG: usize = 1536;
/// Bytes of a segment on flash.
const SEGMENT: usize = 7 * nor::ERASE as usize;
/// Bytes behind the log that hold the word of [`OUTSIDE`].
const BESIDE: usize = nor::ERASE as usize;
/// Offsets in a segment of what makes it count, in both media.
const COMMIT: u32 = 56;

fn fram<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region();
    run::<M, _>(scene, region, 2);
}

fn flash<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region();
    run::<M, _>(scene, Flash::<M, 0x00>(region), 3);
}

/// How many numbers there are, their sum, and the last one.
#[derive(Persist)]
#[repr(C)]
struct Numbers<'p, W: Width> {
    done: u32,
    sum: u32,
    last: Option<PBox<'p, u32, W>>,
    /// Nothing: where a handle has 16 bits, one alone leaves padding behind it.
    none: Option<PBox<'p, u32, W>>,
}

type NumberPool<'m, M> = Pool<'m, Numbers<'static, <M as nvmem::Model>::Unit>, nvmem::Ram<M>>;

/// Counts; each number is durable before the mailbox is told.
fn run<M: Mapped, D: Medium>(scene: &Scene<'_, M>, medium: D, segments: u8) {
    let bug = scene.argument();
    let log = medium.capacity() - BESIDE as u32;
    let driver = Driver {
        medium,
        bug,
        segment: log / u32::from(segments),
        kept: None,
    };
    let config = Config {
        segments,
        ..Config::DEFAULT
    };
    let mut memory = [MaybeUninit::uninit(); MEMORY];
    let (mut mirror, region) = ok!(
        scene,
        Mirror::open::<M>(driver, 0..log, &config, &mut memory)
    );
    let small = pmem_tx::Config {
        // Numbers 1 to 7, which wrap when there is more to do.
        seq_bits: 3,
        ..pmem_tx::Config::SMALL
    };
    let mut pool = ok!(
        scene,
        NumberPool::<M>::open_with(region, &small, |_| {
            Ok(Numbers {
                done: 0,
                sum: 0,
                last: None,
                none: None,
            })
        })
    );
    let (found, sum) = ok!(scene, look(&mut pool));
    let mut word = [0; 4];
    if bug == OUTSIDE {
        ok!(scene, mirror.medium_mut().medium.read(log, &mut word));
    }
    check!(
        scene,
        sum + u32::from_le_bytes(word) == found * (found + 1) / 2
    );
    // What is shown from here on is durable.
    ok!(scene, mirror.durable(&mut pool));
    progress!(scene, found as u16);
    // The recovery is over: the second cut of most boots is before this.
    scene.write_cell(1, 0);
    for n in found + 1..=scene.rounds(3).into() {
        if bug == OUTSIDE {
            let word = (n * (n + 1) / 2).to_le_bytes();
            ok!(scene, mirror.medium_mut().medium.write(log, &word));
        }
        ok!(scene, step(&mut pool, n, bug != OUTSIDE));
        if bug == EARLY {
            scene.write_cell(0, n as u16);
        }
        ok!(scene, mirror.durable(&mut pool));
        scene.write_cell(0, n as u16);
        if n % 4 == 2 {
            ok!(scene, mirror.make_room(&mut pool));
        }
    }
    let (found, _) = ok!(scene, look(&mut pool));
    check!(scene, found == u32::from(scene.rounds(3)));
}

/// The number and the sum, if the last one is right.
fn look<M: Mapped>(pool: &mut NumberPool<'_, M>) -> Result<(u32, u32), pmem_tx::Error> {
    pool.tx(|tx, root| {
        let root = root.get(tx);
        let last = root.last.as_ref().map_or(0, |last| *last.get(tx));
        if last != root.done {
            return Err(tx.abort(1));
        }
        Ok((root.done, root.sum))
    })
}

/// One more: an object is given up and another one is allocated.
fn step<M: Mapped>(
    pool: &mut NumberPool<'_, M>,
    n: u32,
    with_sum: bool,
) -> Result<(), pmem_tx::Error> {
    pool.tx_with((n, with_sum), |tx, root, (n, with_sum)| {
        let root = root.get_mut(tx)?;
        root.done = n;
        if with_sum {
            root.sum += n;
        }
        if let Some(old) = root.last.take() {
            old.into_inner(tx)?;
        }
        root.last = Some(PBox::new(tx, n)?);
        Ok(())
    })
    .map_err(|failed| failed.error)
}

/// Words of 8 bytes in RAM: a table, its outbox and a pool, and their shadow.
const STEPS_MEMORY: usize = 2 * 80;
/// Bytes of their log: two segments.
const STEPS_LOG: usize = 2 * 1536;

/// The cells of the mailbox: how often the sensor was read, how many messages were received, and
/// what the last one said.
const READINGS: u16 = 0;
const RECEIVED: u16 = 1;
const SHOWN: u16 = 2;

static PORT: Port<u16> = Port::new(1);

/// Who gets the messages. A message that comes again says the same.
struct Receiver<'a, 's, M: Mapped>(&'a Scene<'s, M>);

impl<M: Mapped> Outlet for Receiver<'_, '_, M> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let Receiver(scene) = self;
        let (number, next) = (m.number as u16, scene.read_cell(RECEIVED));
        let says = ok!(scene, m.get(&PORT).unwrap_or(Ok(0)));
        if number == next {
            scene.write_cell(SHOWN, says);
            scene.write_cell(RECEIVED, next + 1);
        } else {
            check!(scene, number + 1 == next && scene.read_cell(SHOWN) == says);
        }
        Ok(())
    }
}

/// A mirror that is late if the mailbox's argument says so: it saves at each second call only.
struct Saver<S> {
    mirror: S,
    bug: u16,
    saved: bool,
}

impl<S: Save> Save for Saver<S> {
    type Error = S::Error;
    fn committed<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        self.mirror.committed(owner)
    }
    fn durable_if_due<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        self.mirror.durable_if_due(owner)
    }
    fn durable<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        self.saved = self.bug != UNSAVED || !self.saved;
        if self.saved {
            return self.mirror.durable(owner);
        }
        Ok(())
    }
}

#[derive(Persist)]
#[repr(C)]
struct Sums {
    turns: u32,
    sum: u32,
}

/// A loop: each turn reads a sensor, which never shows the same twice, adds what it has read and
/// sends it. A message leaves when the reading in it is durable.
fn steps<M: Mapped>(scene: &mut Scene<'_, M>) {
    let medium = scene.region();
    let scene = &*scene;
    let config = Config {
        segments: 2,
        ..Config::DEFAULT
    };
    let mut memory = [MaybeUninit::uninit(); STEPS_MEMORY];
    let all = 0..STEPS_LOG as u32;
    let (mirror, region) = ok!(
        scene,
        Mirror::open_or_format::<M>(medium, all, &config, &mut memory)
    );
    let bug = scene.argument();
    let saver = Saver {
        mirror,
        bug,
        saved: true,
    };
    let options = Options {
        table: nv_replay::Config {
            bytes: 96,
            outbox_bytes: 16,
            // Numbers come round again.
            seq_bits: 4,
        },
        pool: Some(pmem_tx::Config::SMALL),
        ..Options::default()
    };
    let mut rt = ok!(
        scene,
        MirroredReplay::<Sums, _, M, _>::open_mirrored(
            region,
            saver,
            options,
            Receiver(scene),
            |_| Ok(Sums { turns: 0, sum: 0 })
        )
    );
    let turns = u32::from(scene.rounds(3));
    ok!(
        scene,
        rt.each(0..turns, |rt, i| {
            let scene = rt.env().0;
            let read = rt.record_with(|| {
                let n = scene.read_cell(READINGS) + 1;
                scene.write_cell(READINGS, n);
                n
            })?;
            rt.step((i, read), |tx, sums, (i, read)| {
                let sums = sums.get_mut(tx)?;
                if sums.turns != i {
                    return Err(tx.abort(1));
                }
                sums.turns = i + 1;
                sums.sum += u32::from(read);
                tx.send(&PORT, read)
            })?;
            Ok(())
        })
    );
    let found = ok!(scene, rt.step((), |tx, sums, ()| Ok(sums.get(tx).turns)));
    check!(scene, found == turns && rt.is_live());
    ok!(scene, rt.durable());
    check!(scene, u32::from(scene.read_cell(RECEIVED)) == turns);
}

/// The most bytes of one write.
const KEPT: usize = 256;

/// A driver that is wrong when the mailbox's argument says so.
struct Driver<D> {
    medium: D,
    bug: u16,
    segment: u32,
    kept: Option<(u32, usize, [u8; KEPT])>,
}

impl<D: Medium> Driver<D> {
    #[cold]
    #[inline(never)]
    fn finish(&mut self) -> Result<(), D::Error> {
        match self.kept.take() {
            Some((at, len, bytes)) => self.medium.write(at, bytes.get(..len).unwrap_or_default()),
            None => Ok(()),
        }
    }

    #[cold]
    #[inline(never)]
    fn wrong(&mut self, at: u32, bytes: &[u8]) -> Result<(), D::Error> {
        if self.bug == OVERTAKEN && at % self.segment < COMMIT {
            return self.medium.write(at, bytes);
        }
        self.finish()?;
        let mut copy = [0; KEPT];
        match copy.get_mut(..bytes.len()) {
            Some(to) => {
                to.copy_from_slice(bytes);
                self.kept = Some((at, bytes.len(), copy));
                Ok(())
            }
            None => self.medium.write(at, bytes),
        }
    }

    fn keeps(&self) -> bool {
        self.bug == POSTED || self.bug == OVERTAKEN
    }
}

impl<D: Medium> Medium for Driver<D> {
    type Error = D::Error;
    const CONTRACT: Contract = D::CONTRACT;

    fn capacity(&self) -> u32 {
        self.medium.capacity()
    }

    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), D::Error> {
        self.finish()?;
        self.medium.read(at, buf)
    }

    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), D::Error> {
        if self.keeps() {
            return self.wrong(at, bytes);
        }
        self.medium.write(at, bytes)
    }

    fn erase(&mut self, from: u32, to: u32) -> Result<(), D::Error> {
        self.finish()?;
        self.medium.erase(from, to)
    }

    fn flush(&mut self) -> Result<(), D::Error> {
        if self.keeps() {
            return Ok(());
        }
        self.medium.flush()
    }
}
