//! Opening, formatting, and finishing a commit that was cut.

use super::map::{Map, RECORDS};
use super::record::{COMMITTED, PERSISTED, RUNNING, Record};
use super::{Entry, FREED, PIECE, Store, header};
use crate::config::Config;
use crate::error::{Error, OpenError, Part};
use crate::promise::Promise;
use core::marker::PhantomData;
use nvmem::device::Torn;
use nvmem::superblock::{State, Superblock};
use nvmem::{Medium, planted};

/// The kind in the superblock.
pub(super) const KIND: [u8; 4] = *b"HEAP";
const VERSION: u16 = 1;
/// In the version: the promise.
pub(super) const SNAPSHOT: u16 = 0x0100;

/// Entries of the table that are read at once.
pub(super) const ENTRIES: u16 = 16;

/// What opening found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opened {
    /// A blank medium, or a format that was cut: it is empty now. The caller puts the root in, persists or commits, and
    /// calls [`Store::finish_format`]; until then the next open begins again.
    Blank,
    /// A heap. The caller finds what is reachable and calls [`Store::sweep`] before anything is allocated.
    Ready,
}

impl<S: Medium, P: Promise> Store<S, P> {
    const MEDIUM: () = {
        let c = &S::CONTRACT;
        assert!(
            c.write_size == 1 && c.read_size == 1 && c.erase.is_none(),
            "a heap needs a medium that is read and written by single bytes and never erased: put flash behind `nvmem::WearLevelled`"
        );
        assert!(
            matches!(c.torn, Torn::Prefix | Torn::Subset),
            "a heap needs a medium of which a cut leaves each byte old or new"
        );
    };

    fn superblock(map: Map, fingerprint: u64) -> Superblock {
        Superblock {
            kind: KIND,
            version: VERSION | if P::SNAPSHOT { SNAPSHOT } else { 0 },
            fingerprint,
            params: map.params(),
        }
    }

    fn new(medium: S, map: Map, config: &Config) -> Self {
        Store {
            medium,
            map,
            seq: 0,
            pinned: 0,
            burst: config.burst.max(PIECE as u16),
            free_units: 0,
            free_ids: 0,
            next_unit: 1,
            next_id: 1,
            chain: 0,
            running: false,
            scan: false,
            unfinished: false,
            bytes_written: 0,
            bytes_read: 0,
            _promise: PhantomData,
        }
    }

    /// Opens what is on the medium; a blank one is formatted.
    ///
    /// **Power loss**: as before, or nearer to what this would have done; the next open goes on. **Cost**: reads the superblock and
    /// the records, and with the snapshot promise the table; the whole medium when it holds no superblock.
    /// **Errors**: those of [`OpenError`] that do not speak of RAM. Nothing is written then.
    pub(crate) fn open(
        mut medium: S,
        config: &Config,
        fingerprint: u64,
    ) -> Result<(Self, Opened), OpenError<S::Error>> {
        let () = Self::MEDIUM;
        // What an existing heap needs, it says itself.
        let small = medium.capacity() < Superblock::BYTES as u32;
        let map = match Map::largest(config, medium.capacity()) {
            Err(needed) if small => return Err(OpenError::TooSmall { needed }),
            fresh => fresh.unwrap_or(Map::NONE),
        };
        let mine = Self::superblock(map, fingerprint);
        let found = header::probe(&mut medium, &mine).map_err(Error::Medium)?;
        let stored = match found {
            State::Blank | State::Formatting => {
                let map = Self::map(config, medium.capacity())?;
                return Self::begin(medium, map, config, &mine);
            }
            State::Foreign => return Err(OpenError::Foreign),
            State::Damaged => return Err(OpenError::Damaged(Part::Header)),
            State::Ready(stored) => stored,
        };
        stored
            .check_layout(&mine)
            .map_err(OpenError::LayoutMismatch)?;
        let map = Map::of_params(&stored.params).ok_or(OpenError::Damaged(Part::Header))?;
        if map.end() > medium.capacity() {
            return Err(OpenError::TooSmall { needed: map.end() });
        }
        let mut store = Self::new(medium, map, config);
        let Some(record) = store.newest_record()? else {
            return Err(OpenError::Damaged(Part::Record));
        };
        store.seq = record.seq;
        store.pinned = record.pins;
        match (P::SNAPSHOT, record.state) {
            (false, PERSISTED) if record.pins <= map.pins => {}
            (false, RUNNING) if planted!("vnv-heap/interrupted-ignored") => {}
            (false, RUNNING) => return Err(OpenError::Interrupted),
            (true, COMMITTED) => store.settle()?,
            _ => return Err(OpenError::Damaged(Part::Record)),
        }
        Ok((store, Opened::Ready))
    }

    /// Gives up what the medium holds, and formats it.
    ///
    /// **Power loss**: before the format is finished, what was there, or blank, or something that [`Store::open`] refuses.
    pub(crate) fn format(
        medium: S,
        config: &Config,
        fingerprint: u64,
    ) -> Result<Self, OpenError<S::Error>> {
        let () = Self::MEDIUM;
        let map = Self::map(config, medium.capacity())?;
        let mine = Self::superblock(map, fingerprint);
        Ok(Self::begin(medium, map, config, &mine)?.0)
    }

    fn map(config: &Config, capacity: u32) -> Result<Map, OpenError<S::Error>> {
        let map =
            Map::largest(config, capacity).map_err(|needed| OpenError::TooSmall { needed })?;
        if map.is_sound() {
            Ok(map)
        } else {
            Err(OpenError::Config("1 to 65,534 objects, at most 4,096 pins"))
        }
    }

    fn begin(
        mut medium: S,
        map: Map,
        config: &Config,
        mine: &Superblock,
    ) -> Result<(Self, Opened), OpenError<S::Error>> {
        if !planted!("vnv-heap/format-unmarked") {
            header::begin(&mut medium, mine).map_err(Error::Medium)?;
        }
        let mut store = Self::new(medium, map, config);
        store.zero(RECORDS, map.table())?;
        store.zero(map.table(), map.unit(1))?;
        let first = Record {
            seq: 0,
            state: if P::SNAPSHOT { COMMITTED } else { RUNNING },
            pins: 0,
        };
        store.put(RECORDS, &first.encode())?;
        store.flush()?;
        store.running = !P::SNAPSHOT;
        store.free_units = map.units;
        store.free_ids = map.objects;
        Ok((store, Opened::Blank))
    }

    /// What is on the medium from here on is a heap: the root is in it, and it was persisted or committed.
    ///
    /// **Power loss**: before the last byte, the next open formats again. **Cost**: at most 65 bytes.
    pub(crate) fn finish_format(&mut self, fingerprint: u64) -> Result<(), OpenError<S::Error>> {
        let mine = Self::superblock(self.map, fingerprint);
        header::finish(&mut self.medium, &mine)
    }

    /// Zeroes what is not zero.
    fn zero(&mut self, from: u32, to: u32) -> Result<(), Error<S::Error>> {
        let mut at = from;
        while at < to {
            let mut b = [0; PIECE];
            let n = (to - at).min(PIECE as u32);
            let piece = &mut b[..n as usize];
            self.get(at, piece)?;
            if piece.iter().any(|v| *v != 0) {
                self.put(at, &[0; PIECE][..n as usize])?;
            }
            at += n;
        }
        Ok(())
    }

    /// Snapshot, at open: what the last commit made count, counts; the rest of what is pending is forgotten.
    ///
    /// Each entry is judged by what is pending alone, so a cut in a write to it is repaired by the next time. `committed` is what is
    /// written when there is a commit to be finished, and then `pending` is not touched, but for a freed one, which stays
    /// recognisable until it is zero.
    fn settle(&mut self) -> Result<(), Error<S::Error>> {
        let late = self.applied()? != self.seq;
        let mut id = 1;
        while id <= self.map.objects {
            let n = (self.map.objects - id + 1).min(ENTRIES);
            let table = self.entries(id, n)?;
            for (i, e) in (id..).zip(table.iter().take(usize::from(n))) {
                if e.committed == e.pending {
                    continue;
                }
                if !late || planted!("vnv-heap/late-commit-forgotten") {
                    self.put_pending(i, e.committed)?;
                } else if e.pending >= FREED {
                    self.put_entry(i, Entry::FREE)?;
                } else {
                    self.put_committed(i, e.pending)?;
                }
            }
            id += n;
        }
        if late {
            self.put_applied()?;
        }
        Ok(())
    }

    /// Up to [`ENTRIES`] entries from `id` on.
    pub(super) fn entries(
        &mut self,
        id: u16,
        n: u16,
    ) -> Result<[Entry; ENTRIES as usize], Error<S::Error>> {
        let mut b = [0; 4 * ENTRIES as usize];
        let n = usize::from(n.min(ENTRIES));
        let at = self.map.entry(id).ok_or(Error::Damaged { object: id })?;
        self.get(at, &mut b[..4 * n])?;
        let mut table = [Entry::FREE; ENTRIES as usize];
        for (e, b) in table.iter_mut().zip(b.as_chunks::<4>().0) {
            *e = Entry::decode(*b);
        }
        Ok(table)
    }
}
