//! Two threads that share a root of a pool and hand boxes over, preempted anywhere.
//!
//! ```text
//!   writer                       board (shared)                reader
//!   makes letter n, posts it --> letter: n  ------------------> takes it; then, alone, frees it and
//!                                                               writes a receipt instead
//! ```
//!
//! The key to the board is behind a lock of the scenario. Each operation is one transaction; the
//! mailbox gets its number after it. The reader needs no key for its receipt, so that both threads
//! allocate and free at the same time. When a letter is posted, the writer says so to the reader in
//! RAM, and the reader tells the mailbox what it has heard. So after a cut:
//!
//! - each thread has done what the mailbox says of it, or one operation more;
//! - what the reader has heard of is posted;
//! - each letter has one owner, and nothing else is allocated.

use crate::switch::{Turn, run};
use crate::{Group, Mapped, Scenario, Scene, check, ok};
use core::cell::{Cell, RefCell, UnsafeCell};
use nvmem::{Model, Persist};
use pmem_tx::{Audit, Width};
use pmem_tx::{Config, Context, Contexts, Error, PBox, Pool, Preempted, Section, Shared, Sharing};

/// The scenarios of the image `threads`.
pub const fn group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "threads",
            primitive: "pmem-tx",
            scenarios: &[Scenario::preempted("letters", BYTES, letters)],
        }
    }
}

/// The argument of a planted bug: a lock that lets both threads in. A thread then sees what the
/// other one has not committed.
pub(crate) const BOTH_IN: u16 = 18;
/// A letter is announced before its transaction is committed.
pub(crate) const ANNOUNCED: u16 = 19;
/// The pool's critical sections mask nothing.
pub(crate) const UNMASKED: u16 = 20;

const BYTES: usize = 640;
const CONFIG: Config = Config {
    journal_entries: 8,
    journal_bytes: 64,
    seq_bits: 4,
};

/// The mailbox's cells: letters that are posted, letters that are taken and receipts, and the last
/// letter that the reader has heard of.
const POSTED: u16 = 0;
const TAKEN: u16 = 1;
const SIGNED: u16 = 2;
const HEARD: u16 = 3;

struct Bug(UnsafeCell<bool>);
// SAFETY: written before there is a second thread, and each access is one volatile access.
unsafe impl Sync for Bug {}
static UNMASKED_NOW: Bug = Bug(UnsafeCell::new(false));

/// Interrupts are masked, unless a planted bug wants the pool's sections without effect.
enum Masked {}
// SAFETY: one core, and nothing interrupts `f`. On a host the threads take turns.
unsafe impl Section for Masked {
    #[inline(always)]
    fn with<R>(f: impl FnOnce() -> R) -> R {
        // SAFETY: as said above.
        match unsafe { UNMASKED_NOW.0.get().read_volatile() } {
            true => f(),
            false => critical_section::with(|_| f()),
        }
    }
}
type On<M> = Preempted<M, Masked>;

/// What the threads share.
#[derive(Persist)]
#[repr(C)]
struct Board<'p, W: Width> {
    letter: Option<PBox<'p, [u16; 3], W>>,
}
/// What the reader has: how many letters it has taken and signed, the one that it has not signed,
/// and the last receipt.
#[derive(Persist)]
#[repr(C)]
struct Reader<'p, W: Width> {
    taken: u16,
    signed: u16,
    letter: Option<PBox<'p, [u16; 3], W>>,
    receipt: Option<PBox<'p, [u16; 2], W>>,
}
type Roots<W> = Sharing<(Board<'static, W>,), Contexts<(u16, Reader<'static, W>)>>;
type Key<'c, M> = Shared<'c, Board<'static, <M as Model>::Unit>, <M as Model>::Unit>;

fn content(n: u16) -> [u16; 3] {
    [n, !n, n ^ 0x55]
}

/// The lock: a thread that finds the key in use comes again later.
struct Lock<K> {
    key: UnsafeCell<K>,
    in_use: Cell<bool>,
}

impl<K> Lock<K> {
    fn try_with<R>(&self, f: impl FnOnce(&mut K) -> R) -> Option<R> {
        if critical_section::with(|_| self.in_use.replace(true)) {
            return None;
        }
        // SAFETY: whoever has set the flag is alone with the key until the flag is cleared.
        let r = f(unsafe { &mut *self.key.get() });
        critical_section::with(|_| self.in_use.set(false));
        Some(r)
    }
}

/// Posts letter `posted + 1` if there is room on the board. Whether it did.
fn post<M: Mapped>(
    c: &mut Context<'_, u16, On<M>>,
    key: &mut Key<'_, M>,
    early: Option<&Cell<u16>>,
) -> Result<bool, Error> {
    let done = c.tx_with(key, |tx, posted, mut board| {
        if board.get(tx).letter.is_some() {
            return Ok(false);
        }
        let n = *posted.get(tx) + 1;
        let letter = PBox::new(tx, content(n))?;
        *posted.get_mut(tx)? = n;
        board.get_mut(tx)?.letter = Some(letter);
        if let Some(announced) = early {
            announced.set(n);
        }
        Ok(true)
    });
    done.map_err(|f| f.error)
}

/// Takes the letter from the board, if there is one. Whether it did.
fn take<M: Mapped>(
    c: &mut Context<'_, Reader<'static, M::Unit>, On<M>>,
    key: &mut Key<'_, M>,
) -> Result<bool, Error> {
    let done = c.tx_with(key, |tx, tray, mut board| {
        if board.get(tx).letter.is_none() {
            return Ok(false);
        }
        let letter = board.get_mut(tx)?.letter.take();
        let tray = tray.get_mut(tx)?;
        tray.taken += 1;
        tray.letter = letter;
        Ok(true)
    });
    done.map_err(|f| f.error)
}

/// Frees the letter and writes a receipt.
fn sign<M: Mapped>(c: &mut Context<'_, Reader<'static, M::Unit>, On<M>>) -> Result<(), Error> {
    c.tx(|tx, tray| {
        let tray = tray.get_mut(tx)?;
        tray.signed += 1;
        let letter = tray.letter.take().ok_or(tx.abort(1))?.into_inner(tx)?;
        if letter != content(tray.signed) {
            return Err(tx.abort(2));
        }
        if let Some(before) = tray.receipt.replace(PBox::new(tx, [!tray.signed; 2])?) {
            before.free(tx)?;
        }
        Ok(())
    })
}

/// What the reader has.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    taken: u16,
    signed: u16,
    letter: Option<[u16; 3]>,
    receipt: Option<[u16; 2]>,
}

impl Seen {
    /// What it must have.
    fn of(taken: u16, signed: u16) -> Self {
        Seen {
            taken,
            signed,
            letter: (taken > signed).then(|| content(taken)),
            receipt: (signed > 0).then_some([!signed; 2]),
        }
    }

    /// Each root, each letter and each receipt, and nothing else, is allocated.
    fn is_all(&self, audit: &Audit, posted: u16) -> bool {
        let boxes = 3 + usize::from(posted - self.signed) + usize::from(self.receipt.is_some());
        audit.unreachable == 0 && audit.blocks == boxes
    }
}

fn letters<M: Mapped>(scene: &mut Scene<'_, M>) {
    let region = scene.region_as::<On<M>>();
    let scene = &*scene;
    let bug = |n| scene.argument() == n;
    // SAFETY: there is one thread.
    unsafe { UNMASKED_NOW.0.get().write_volatile(bug(UNMASKED)) };
    let mut pool = ok!(
        scene,
        Pool::<Roots<M::Unit>, On<M>>::open_with(region, &CONFIG, |_| {
            let tray = Reader {
                taken: 0,
                signed: 0,
                letter: None,
                receipt: None,
            };
            Ok(((Board { letter: None },), (0, tray)))
        })
    );
    let audit = ok!(scene, pool.audit());
    let last = scene.rounds(3);
    let posted;
    let done;
    {
        let ((mut writer, mut reader), (board,)) = ok!(scene, pool.share());
        let p = ok!(scene, writer.tx(|tx, n| Ok(*n.get(tx))));
        let seen = ok!(
            scene,
            reader.tx(|tx, tray| {
                let tray = tray.get(tx);
                Ok(Seen {
                    taken: tray.taken,
                    signed: tray.signed,
                    letter: tray.letter.as_ref().map(|l| *l.get(tx)),
                    receipt: tray.receipt.as_ref().map(|r| *r.get(tx)),
                })
            })
        );
        let (t, s) = (seen.taken, seen.signed);
        for (cell, found) in [(POSTED, p), (TAKEN, t), (SIGNED, s)] {
            let told = scene.read_cell(cell);
            check!(scene, found == told || found == told + 1);
            scene.write_cell(cell, found);
        }
        check!(scene, s <= t && t <= p && p - t <= 1 && t - s <= 1);
        check!(scene, scene.read_cell(HEARD) <= p);
        check!(scene, seen == Seen::of(t, s));
        check!(scene, seen.is_all(&audit, p));
        posted = Cell::new(p);
        done = Cell::new((t, s));
        // SAFETY: a second key to the board, which only a planted bug uses.
        let twin = unsafe { core::ptr::read(&board) };
        let lock = |key| Lock {
            key: UnsafeCell::new(key),
            in_use: Cell::new(false),
        };
        let (board, twin) = (lock(board), lock(twin));
        let of_reader = if bug(BOTH_IN) { &twin } else { &board };
        let announced = Cell::new(p);
        let (writer, reader) = (RefCell::new(writer), RefCell::new(reader));
        let write = || {
            if posted.get() == last {
                return Turn::Ended;
            }
            let early = bug(ANNOUNCED).then_some(&announced);
            let did = board.try_with(|key| post(&mut writer.borrow_mut(), key, early));
            if !matches!(did, Some(did) if ok!(scene, did)) {
                return Turn::Waits;
            }
            posted.set(posted.get() + 1);
            scene.write_cell(POSTED, posted.get());
            announced.set(posted.get());
            Turn::Done
        };
        let read = || {
            let (taken, signed) = done.get();
            if announced.get() > scene.read_cell(HEARD) {
                scene.write_cell(HEARD, announced.get());
            }
            if taken > signed {
                ok!(scene, sign(&mut reader.borrow_mut()));
                done.set((taken, taken));
                scene.write_cell(SIGNED, taken);
                return Turn::Done;
            }
            if taken == last {
                return Turn::Ended;
            }
            let took = of_reader.try_with(|key| take(&mut reader.borrow_mut(), key));
            if !matches!(took, Some(took) if ok!(scene, took)) {
                return Turn::Waits;
            }
            done.set((taken + 1, signed));
            scene.write_cell(TAKEN, taken + 1);
            Turn::Done
        };
        run(scene, [&write, &read]);
    }
    check!(scene, posted.get() == last && done.get() == (last, last));
    let audit = ok!(scene, pool.audit());
    check!(scene, Seen::of(last, last).is_all(&audit, last));
}
