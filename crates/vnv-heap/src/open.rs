//! Opening a heap: format, reopen or refuse; audit; commit.
//!
//! ```text
//!  open/format/salvage -> store.open or store.begin
//!      blank: allocate object 1 -> init(heap without root) -> write the root
//!             -> persist or commit -> finish_format
//!      used:  pass 1 walk (marks in RAM) -> pass 2 sweep (table and bitmap) -> ready
//! ```

use crate::brand::Brand;
use crate::config::Config;
use crate::error::{Error, Fail, OpenError};
use crate::heap::ROOT;
use crate::object::Marked;
use crate::own::{Kind, OWN, OWN_ID};
use crate::policy::Policy;
use crate::promise::Promise;
use crate::ram::Cache;
use crate::state::{Core, State, StateLock};
use crate::stats::Counts;
use crate::store::{Alloc, Commit, GIVES_UP, Store};
use crate::walk::{self, Reachable};
use crate::{Heap, Unrooted};
use core::cell::UnsafeCell;
use core::hint::black_box;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use nvmem::persist::HandleKind;
use nvmem::superblock::Copies;
use nvmem::{Faithful, Medium, Persist, planted};

/// The result of [`Heap::audit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Audit {
    /// Reachable objects, the root included.
    pub reachable: u16,
    /// Allocated objects. Those that are not reachable are owned by variables of the program or by
    /// damaged objects, or are leaked.
    pub allocated: u16,
    /// Reachable objects with handles that are damaged. The objects that they own count as
    /// unreachable. See [`Heap::damage`].
    pub damaged: u16,
}

impl<'h, R, S, P, Pol, B> Heap<'h, R, S, P, Pol, B>
where
    R: Persist<At<'h> = R> + Marked<B>,
    S: Medium,
    P: Promise,
    Pol: Policy,
{
    /// Opens the heap on `storage`. Formats a blank medium, with the root that `init` returns;
    /// reopens a used one; refuses a foreign one. `init` may allocate. Its heap is [`Unrooted`],
    /// because there is no root yet.
    ///
    /// The medium is [`Faithful`]: bytes that are read again in this run are trusted. Accepts any
    /// bytes that the medium holds at first. Open checks all objects with handles that are
    /// reachable from the root, and frees unreachable ones. `ram` needs four bits for each of
    /// `config.objects`, and the size of the largest object with handles.
    ///
    /// **Power loss**: a format starts again; a heap that existed keeps its promise. **Cost**:
    /// reads the table and objects with handles; to format, zeroes the table. **Errors**:
    /// [`OpenError`]. Pass `&mut storage` to keep the medium after an error.
    /// [`OpenError::Interrupted`] can be overcome by [`Heap::format`].
    pub fn open<F>(
        brand: Brand<'h, B>,
        storage: S,
        ram: &'h mut [u8],
        config: Config,
        init: F,
    ) -> Result<Self, OpenError<S::Error>>
    where
        S: Faithful,
        F: FnOnce(&Heap<'h, Unrooted, S, P, Pol, B>) -> Result<R, Error<S::Error>>,
    {
        let _ = brand;
        Self::new(storage, ram, &config)?.open_or_init(&config, false, init)
    }

    /// The same heap, moved part by part: small cores copy more than 64 bytes by a call of
    /// `memcpy`, which alone takes 900 bytes of code.
    #[inline(always)]
    fn moved_in_parts(self) -> Self {
        let Core { lock, state } = self.core;
        let state = state.into_inner();
        let (cache, store) = (state.cache.moved_in_parts(), state.store);
        Heap {
            core: Core {
                lock,
                state: UnsafeCell::new(State {
                    cache,
                    store,
                    incarnation: state.incarnation,
                    stats: state.stats,
                    reaper: state.reaper,
                }),
            },
            _r: PhantomData,
            _brand: PhantomData,
            _ram: PhantomData,
        }
    }

    /// Drops what `storage` holds, and formats it. See [`Heap::open`].
    pub fn format<F>(
        brand: Brand<'h, B>,
        storage: S,
        ram: &'h mut [u8],
        config: Config,
        init: F,
    ) -> Result<Self, OpenError<S::Error>>
    where
        S: Faithful,
        F: FnOnce(&Heap<'h, Unrooted, S, P, Pol, B>) -> Result<R, Error<S::Error>>,
    {
        let _ = brand;
        Self::new(storage, ram, &config)?.open_or_init(&config, true, init)
    }

    /// As [`Heap::open`], but frees objects that only damaged objects own, and objects that became
    /// unreachable while damage was known. A damaged object stays damaged until the program gives
    /// it up by [`Heap::give_up`].
    ///
    /// For a program that has read what it could, and needs the space. **Power loss**, **Cost**,
    /// **Errors**: as [`Heap::open`].
    pub fn salvage<F>(
        brand: Brand<'h, B>,
        storage: S,
        ram: &'h mut [u8],
        config: Config,
        init: F,
    ) -> Result<Self, OpenError<S::Error>>
    where
        S: Faithful,
        F: FnOnce(&Heap<'h, Unrooted, S, P, Pol, B>) -> Result<R, Error<S::Error>>,
    {
        let _ = brand;
        let mut heap = Self::new(storage, ram, &config)?;
        heap.core.state.get_mut().store.damaged = GIVES_UP;
        heap.open_or_init(&config, false, init)
    }

    /// A heap that is neither opened nor formatted yet.
    fn new(storage: S, ram: &'h mut [u8], config: &Config) -> Result<Self, OpenError<S::Error>> {
        config.check().map_err(OpenError::Config)?;
        let kind = Kind::of::<R>();
        // The root, its header, and the start of the directory.
        let needed = usize::from(kind.len).next_multiple_of(8) + 8 + 16;
        // Take the pointer last: the buffer is not accessed through `ram` afterwards.
        let len = ram.len();
        // SAFETY: the buffer is borrowed as long as the heap's brand lives, and only the cache uses
        // it.
        let cache = unsafe { Cache::new_uncleared(ram.as_mut_ptr(), len) };
        let cache = cache
            .filter(|_| len >= needed)
            .ok_or(OpenError::RamTooSmall {
                needed: needed as u32,
            })?;
        Ok(Heap {
            core: Core {
                lock: StateLock::new(cache.budget()),
                state: UnsafeCell::new(State {
                    cache,
                    store: Store::new(storage, config),
                    // Hides the constant from the optimiser, which would call `memset` for words
                    // known to be zero.
                    incarnation: black_box(0),
                    stats: Counts::default(),
                    reaper: None,
                }),
            },
            _r: PhantomData,
            _brand: PhantomData,
            _ram: PhantomData,
        })
    }

    /// Opens it, or formats it and writes the root.
    #[inline(always)]
    fn open_or_init<F>(
        mut self,
        config: &Config,
        anew: bool,
        init: F,
    ) -> Result<Self, OpenError<S::Error>>
    where
        F: FnOnce(&Heap<'h, Unrooted, S, P, Pol, B>) -> Result<R, Error<S::Error>>,
    {
        let fingerprint = nvmem::fingerprint::<R>();
        let root = const { &HandleKind::of::<R>(OWN, OWN_ID) };
        let kind = Kind::of::<R>();
        let mut copies = MaybeUninit::uninit();
        let copies = Copies::zeroed(&mut copies);
        let done = match self
            .core
            .open_or_format(config, fingerprint, root, kind, anew, copies)
        {
            Err(Fail::BLANK) => {
                let value = ManuallyDrop::new(init(self.unrooted())?);
                // SAFETY: the value belongs to the object from here on.
                unsafe {
                    self.core
                        .init_root(fingerprint, kind, (&raw const value).cast())
                }
            }
            done => done,
        };
        match done {
            Ok(()) => Ok(self.moved_in_parts()),
            Err(fail) => {
                let store = &mut self.core.state.get_mut().store;
                Err(store.refused(fail, fingerprint, copies))
            }
        }
    }

    /// Writes back all changes, empties the cache, and counts reachable objects.
    ///
    /// **Power loss**: as any write-back. **Cost**: as [`Heap::open`]. **Errors**: [`Error::Busy`]
    /// when a leaked guard pins an object; those of [`Heap::open`].
    pub fn audit(&mut self) -> Result<Audit, OpenError<S::Error>> {
        let looked = self.core.clean_all().and_then(|()| {
            self.core.section(|st| {
                if st.cache.any_pinned() {
                    return Err(Fail::BUSY);
                }
                let root = const { &HandleKind::of::<R>(OWN, OWN_ID) };
                let (reachable, damaged) = st.walk_and_sweep(root, false)?;
                Ok(Audit {
                    reachable,
                    allocated: st.store.objects() - st.store.free_objects(),
                    damaged,
                })
            })
        });
        looked.map_err(|fail| fail.refusal(self.core.state.get_mut().store.failure.take()))
    }
}

impl<S: Medium, P: Promise, Pol: Policy> Core<S, P, Pol> {
    /// Opens the medium or formats it. **Errors**: [`Fail::BLANK`] when it is empty now, with
    /// object 1 allocated for the root.
    fn open_or_format(
        &mut self,
        config: &Config,
        fingerprint: u64,
        root: &HandleKind,
        kind: &Kind,
        anew: bool,
        copies: &mut Copies,
    ) -> Result<(), Fail> {
        let st = self.state.get_mut();
        let found = if anew {
            st.store.begin(config, fingerprint)
        } else {
            st.store.open(config, fingerprint, copies)
        };
        if found.is_ok() {
            st.walk_and_sweep(root, true)?;
        } else if found != Err(Fail::BLANK) {
            return found;
        }
        self.set_limits(config);
        if found.is_err() {
            let mut alloc = Alloc::one(kind.len);
            self.alloc_id(&mut alloc)?;
            if alloc.id() != ROOT {
                return Err(Fail::TABLE);
            }
        }
        found
    }

    /// Writes the root, and ends the format.
    ///
    /// # Safety
    /// As [`Core::fill`].
    unsafe fn init_root(&self, fingerprint: u64, kind: &Kind, root: *const u8) -> Result<(), Fail> {
        // SAFETY: as the caller vouches.
        unsafe { self.fill(ROOT, kind, root) }?;
        self.no_padding_leaked()?;
        if P::SNAPSHOT {
            self.clean_all()?;
            self.commit_all()?;
        }
        self.section(|st| {
            if !P::SNAPSHOT {
                st.save()?;
            }
            st.store.finish_format(fingerprint)
        })
    }

    /// Sets the limits. Nothing is resident.
    fn set_limits(&mut self, config: &Config) {
        let st = self.state.get_mut();
        let pins = if P::SNAPSHOT {
            u16::MAX
        } else {
            st.store.max_pins()
        };
        st.cache.limit_to(config.limit(), pins);
        st.cache.clear();
        self.lock.unlock(st.cache.budget());
    }

    /// Commits everything that was written back.
    pub(crate) fn commit_all(&self) -> Result<(), Fail> {
        let mut commit = Commit::new();
        self.sections(|st| st.store.commit(&mut commit))
    }
}

impl<S: Medium, P: Promise, Pol: Policy> State<S, P, Pol> {
    /// Walks from the root, using the whole RAM buffer, in which nothing is pinned. With `sweep`,
    /// frees unreachable objects. Returns the counts of reachable and damaged objects.
    fn walk_and_sweep(&mut self, root: &HandleKind, sweep: bool) -> Result<(u16, u16), Fail> {
        // SAFETY: the buffer belongs to the cache, which is empty from here on. Nothing is pinned.
        let ram = unsafe { &mut *self.cache.buffer() };
        let r = walk::walk(&mut self.store, ram, root, sweep).and_then(|found| {
            let Reachable { marks, scratch, .. } = found;
            if sweep && !planted!("vnv-heap/no-sweep") {
                self.store
                    .sweep(scratch, found.damaged, |id| marks.is_reachable(id))?;
            }
            Ok((found.count, found.damaged))
        });
        self.cache.clear();
        r
    }
}

impl<R, S: Medium, Pol: Policy, B> Heap<'_, R, S, crate::Snapshot, Pol, B> {
    /// Commits: the next open finds everything as it is now.
    ///
    /// No guard can be alive. **Power loss**: before the commit's record, the heap is as of the
    /// previous commit; after it, as of this one; never in between. **Cost**: the dirty objects, 16
    /// bytes, and for each object that has changed since the last commit 2 bytes and its bits of
    /// the bitmap. **Errors**: [`Error::Medium`]; then commit again before anything else changes
    /// ([`Error::Unfinished`]). [`Error::Full`] cannot occur: a dirty object has its space.
    /// [`Error::Busy`] when a guard that wrote an object with padding was leaked.
    pub fn commit(&mut self) -> Result<(), Error<S::Error>> {
        let done = self.core.clean_all().and_then(|()| self.core.commit_all());
        self.core.with_medium_error(done)
    }
}
