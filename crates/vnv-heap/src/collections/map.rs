//! A hash map.
//!
//! ```text
//!  hash(key) picks the first chunk; chunks are scanned in order from there
//!  chunk: [ used: key,value | freed | used: key,value | never used ]
//!         a never-used place ends the search
//! ```

use super::run::{Run, field};
use crate::HeapOf;
use crate::error::{Error, Rejected};
use crate::handle::{HeapHandles, Marked};
use core::mem::offset_of;
use nvmem::describe::{HandleTo, Type};
use nvmem::persist::Visit;
use nvmem::{Invalid, Maybe, Persist, Plain, assert_no_padding, planted};

/// A place of the table: never used, freed, or with an entry.
type MapSlot<K, V> = Maybe<Maybe<Entry<K, V>>>;
type Table<'h, K, V, const PER: usize, B> = Run<'h, [MapSlot<K, V>; PER], B>;

/// A map from keys to values: a hash table of chunks with `PER` entries each. 12 bytes.
///
/// Keys are equal when their bytes are, so a key must not have padding. When three quarters of the
/// places are used, a table of twice the size replaces the old one. [`Map::new`] makes an empty
/// map. A value may own objects: for values of varying size, `Map<K, Blob, PER>`.
#[must_use = "what is dropped is unreachable until the next open: store it, or free it"]
#[repr(C)]
pub struct Map<'h, K, V, const PER: usize, B = ()> {
    table: Table<'h, K, V, PER, B>,
    /// Entries, and places that have ever been used.
    len: u32,
    ever_used: u32,
}

// SAFETY: invariant "Sole owner": a run and two numbers, without padding; the run shows its
// handles.
unsafe impl<K: Plain, V: Persist, const PER: usize, B> Persist for Map<'_, K, V, PER, B> {
    type At<'p> = Map<'p, K, V::At<'p>, PER, B>;
    type HandleTargets = HeapHandles<HandleTo<[MapSlot<K, V>; PER]>, B>;
    const LAYOUT: &'static Type = &Type::Compound {
        name: "Map",
        size: size_of::<Self>(),
        align: align_of::<Self>(),
        params: &[PER as u128],
        members: &[
            field("table", 0, Table::<'static, K, V, PER, B>::LAYOUT),
            field("len", 4, u32::LAYOUT),
            field("used", 8, u32::LAYOUT),
        ],
    };
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: invariant "Checked before it is a value": the run is the first field; as the
        // caller vouches.
        unsafe { Table::<'_, K, V, PER, B>::check(p, v) }
    }
}

impl<K, V, const PER: usize, B> Default for Map<'_, K, V, PER, B> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V, const PER: usize, B> Map<'_, K, V, PER, B> {
    /// An empty map without a table.
    pub const fn new() -> Self {
        const { assert!(PER > 0, "a chunk has at least one entry") };
        Map {
            table: Run::EMPTY,
            len: 0,
            ever_used: 0,
        }
    }

    /// The number of entries.
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are no entries.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn places(&self) -> u32 {
        u32::from(self.table.count()) * PER as u32
    }
}

/// The bytes of a key.
fn bytes<K: Plain>(key: &K) -> &[u8] {
    const { assert_no_padding::<K>() };
    // SAFETY: invariant "All bytes have a value": a valid value without padding.
    unsafe { core::slice::from_raw_parts(core::ptr::from_ref(key).cast(), size_of::<K>()) }
}

/// FNV-1a, with the upper bits mixed down and up. The same in every build.
fn hash<K: Plain>(key: &K) -> u32 {
    let h = bytes(key).iter().fold(0x811C_9DC5, |h: u32, b| {
        (h ^ u32::from(*b)).wrapping_mul(0x0100_0193)
    });
    (h ^ h >> 15).wrapping_mul(0x2C1B_3C6D)
}

fn value_of<K, V>(map_slot: MapSlot<K, V>) -> Option<V> {
    match map_slot {
        Maybe::Some(Maybe::Some(e)) => Some(e.value),
        _ => None,
    }
}

/// The place of a key, or the place where it would go.
struct MapPos {
    chunk: u16,
    at: usize,
    /// Whether the key is present, and whether the place was ever used.
    present: bool,
    ever_used: bool,
}

impl<'h, K: Plain + Copy, V: Plain + Marked<B>, const PER: usize, B> Map<'h, K, V, PER, B> {
    /// A copy of the value of a key. **Cost**, **Errors**: as [`Map::with`].
    pub fn get<H: HeapOf<'h, B>>(&self, heap: &H, key: &K) -> Result<Option<V>, Error<H::Error>> {
        self.with(heap, key, crate::handle::copy)
    }
}

impl<'h, K: Plain + Copy, V: Persist<At<'h> = V> + Marked<B>, const PER: usize, B>
    Map<'h, K, V, PER, B>
{
    /// Calls `f` with the value of a key; `None` when there is none. **Cost**: one or two chunks
    /// are read. **Errors**: as [`Heap::get`](crate::Heap::get).
    pub fn with<H: HeapOf<'h, B>, O>(
        &self,
        heap: &H,
        key: &K,
        f: impl FnOnce(&V) -> O,
    ) -> Result<Option<O>, Error<H::Error>> {
        let heap = heap.unrooted();
        let Some(found) = Self::find(&self.table, heap, key)?.filter(|f| f.present) else {
            return Ok(None);
        };
        let chunk = heap.chunk(&self.table, found.chunk)?;
        Ok(match chunk.as_ref().and_then(|c| c.get(found.at)) {
            Some(Maybe::Some(Maybe::Some(e))) => Some(f(&e.value)),
            _ => None,
        })
    }

    /// Calls `f` with the value of a key, which it may change; `None` when there is none. **Power
    /// loss**, **Cost**, **Errors**: as [`Map::insert`]; it does not grow.
    pub fn update<H: HeapOf<'h, B>, O>(
        &self,
        heap: &H,
        key: &K,
        f: impl FnOnce(&mut V) -> O,
    ) -> Result<Option<O>, Error<H::Error>> {
        self.change(heap, key, |map_slot| match map_slot {
            Maybe::Some(Maybe::Some(e)) => Some(f(&mut e.value)),
            _ => None,
        })
    }

    /// Inserts a value and returns the previous one, with the objects that it owns.
    ///
    /// **Power loss**: the entry counts from the persist or commit on that saves the object with
    /// the map. **Cost**: one or two chunks are read and one is changed; when the map grows, all of
    /// them. **Errors**: [`Error::Full`]; as [`Heap::get_mut`](crate::Heap::get_mut). The value is
    /// returned, and the map is unchanged.
    pub fn insert<H: HeapOf<'h, B>>(
        &mut self,
        heap: &H,
        key: K,
        value: V,
    ) -> Result<Option<V>, Rejected<V, H::Error>> {
        let heap = heap.unrooted();
        let pinned = self.place_for(heap, &key).and_then(|f| {
            let chunk = heap.chunk_mut(&self.table, f.chunk)?;
            Ok((f, chunk.ok_or(Error::Full)?))
        });
        let (f, mut chunk) = match pinned {
            Ok(pinned) => pinned,
            Err(error) => return Err(Rejected { error, value }),
        };
        let Some(map_slot) = chunk.get_mut(f.at) else {
            let error = Error::Full;
            return Err(Rejected { error, value });
        };
        let new = Maybe::Some(Maybe::Some(Entry { key, value }));
        let old = core::mem::replace(map_slot, new);
        self.len += u32::from(!f.present);
        self.ever_used += u32::from(!f.ever_used);
        Ok(value_of(old))
    }

    /// Removes an entry and returns its value. **Power loss**, **Cost**, **Errors**: as
    /// [`Map::insert`]; it does not grow.
    pub fn remove<H: HeapOf<'h, B>>(
        &mut self,
        heap: &H,
        key: &K,
    ) -> Result<Option<V>, Error<H::Error>> {
        let old = self.change(heap, key, |map_slot| {
            // Not *never used*: entries behind it must still be found.
            let freed = if planted!("vnv-heap/removed-is-never-used") {
                Maybe::None
            } else {
                Maybe::Some(Maybe::None)
            };
            value_of(core::mem::replace(map_slot, freed))
        })?;
        self.len = self.len.saturating_sub(u32::from(old.is_some()));
        Ok(old)
    }

    /// Calls `f` with the place of a key's entry, which it may change.
    fn change<H: HeapOf<'h, B>, O>(
        &self,
        heap: &H,
        key: &K,
        f: impl FnOnce(&mut MapSlot<K, V>) -> Option<O>,
    ) -> Result<Option<O>, Error<H::Error>> {
        let heap = heap.unrooted();
        let Some(found) = Self::find(&self.table, heap, key)?.filter(|f| f.present) else {
            return Ok(None);
        };
        let mut chunk = heap.chunk_mut(&self.table, found.chunk)?;
        Ok(chunk.as_mut().and_then(|c| c.get_mut(found.at)).and_then(f))
    }

    /// Finds the place for the value of a key. Grows the map if necessary.
    fn place_for<H: HeapOf<'h, B>>(
        &mut self,
        heap: &H,
        key: &K,
    ) -> Result<MapPos, Error<H::Error>> {
        let mut found = Self::find(&self.table, heap, key)?;
        let crowded = (self.ever_used + 1).saturating_mul(4) > self.places().saturating_mul(3);
        if !found.as_ref().is_some_and(|f| f.present || f.ever_used) && crowded {
            self.grow(heap)?;
            found = Self::find(&self.table, heap, key)?;
        }
        found.ok_or(Error::Full)
    }

    /// Calls `f` for each entry, in no particular order. **Cost**: reads all chunks. **Errors**: as
    /// [`Heap::get`](crate::Heap::get).
    pub fn for_each<H: HeapOf<'h, B>>(
        &self,
        heap: &H,
        mut f: impl FnMut(&K, &V),
    ) -> Result<(), Error<H::Error>> {
        for i in 0..self.table.count() {
            let chunk = heap.unrooted().chunk(&self.table, i)?;
            for map_slot in chunk.ok_or(Error::Full)?.iter() {
                if let Maybe::Some(Maybe::Some(e)) = map_slot {
                    f(&e.key, &e.value);
                }
            }
        }
        Ok(())
    }

    /// Frees all entries, the objects that they own, and the table. Same as
    /// [`Heap::discard`](crate::Heap::discard) of the map, which is empty afterwards.
    ///
    /// **Power loss**, **Cost**, **Errors**: as there.
    pub fn clear<H: HeapOf<'h, B>>(&mut self, heap: &H) -> Result<(), Error<H::Error>> {
        heap.unrooted().discard(core::mem::take(self))
    }

    /// Replaces the table by a larger one, or by one of equal size without freed places.
    #[inline(never)]
    fn grow<H: HeapOf<'h, B>>(&mut self, heap: &H) -> Result<(), Error<H::Error>> {
        let heap = heap.unrooted();
        let count = self.table.count();
        let more = (self.len + 1).saturating_mul(2) > self.places();
        let count = if more {
            count.checked_mul(2).ok_or(Error::Full)?.max(2)
        } else {
            count
        };
        let new = heap.alloc_run(count, |_| Ok([const { Maybe::None }; PER]))?;
        match Self::copy(&self.table, &new, heap) {
            Ok(len) => {
                let old = core::mem::replace(&mut self.table, new);
                (self.len, self.ever_used) = (len, len);
                // The new table owns the entries' objects.
                if planted!("vnv-heap/moved-is-freed") {
                    let _ = heap.discard(old);
                } else {
                    heap.free_chunks(old);
                }
                Ok(())
            }
            Err(e) => {
                // The old table owns the entries' objects again.
                heap.free_chunks(new);
                Err(e)
            }
        }
    }

    /// Scans from the key's chunk on, up to a place that was never used.
    fn find<H: HeapOf<'h, B>>(
        table: &Table<'h, K, V, PER, B>,
        heap: &H,
        key: &K,
    ) -> Result<Option<MapPos>, Error<H::Error>> {
        let count = table.count();
        let first = ((u64::from(hash(key)) * u64::from(count)) >> 32) as u32;
        let mut free = None;
        for i in 0..u32::from(count) {
            let chunk = ((first + i) % u32::from(count)) as u16;
            let held = heap.unrooted().chunk(table, chunk)?.ok_or(Error::Full)?;
            for (at, map_slot) in held.iter().enumerate() {
                let (present, ever_used) = match map_slot {
                    Maybe::Some(Maybe::Some(e)) if bytes(&e.key) == bytes(key) => (true, true),
                    Maybe::Some(Maybe::Some(_)) => continue,
                    Maybe::Some(Maybe::None) => (false, true),
                    Maybe::None => (false, false),
                };
                let found = MapPos {
                    chunk,
                    at,
                    present,
                    ever_used,
                };
                if present {
                    return Ok(Some(found));
                }
                if free.is_none() {
                    free = Some(found);
                }
                if !ever_used {
                    return Ok(free);
                }
            }
        }
        Ok(free)
    }

    /// Copies all entries into another table and returns their number. Both tables then own the
    /// entries' objects.
    fn copy<H: HeapOf<'h, B>>(
        from: &Table<'h, K, V, PER, B>,
        to: &Table<'h, K, V, PER, B>,
        heap: &H,
    ) -> Result<u32, Error<H::Error>> {
        let heap = heap.unrooted();
        let mut len = 0;
        for i in 0..from.count() {
            for at in 0..PER {
                let e = match heap.chunk(from, i)?.ok_or(Error::Full)?.get(at) {
                    // SAFETY: invariant "Sole owner": a valid entry; of the two tables one is freed
                    // without looking into it.
                    Some(Maybe::Some(Maybe::Some(e))) => unsafe { core::ptr::from_ref(e).read() },
                    _ => continue,
                };
                let f = Self::find(to, heap, &e.key)?.ok_or(Error::Full)?;
                let mut chunk = heap.chunk_mut(to, f.chunk)?.ok_or(Error::Full)?;
                if let Some(map_slot) = chunk.get_mut(f.at) {
                    *map_slot = Maybe::Some(Maybe::Some(e));
                    len += u32::from(!f.present);
                }
            }
        }
        Ok(len)
    }
}

#[repr(C)]
#[allow(unreachable_pub)]
pub struct Entry<K, V> {
    key: K,
    value: V,
}

impl<K, V> Entry<K, V> {
    const VALUE: usize = offset_of!(Self, value);
}

// SAFETY: invariant "Parts are inside": the fields at their offsets are all there is; what lies
// between and behind them is cleared; keys have no handles.
unsafe impl<K: Plain, V: Persist> Persist for Entry<K, V> {
    type At<'p> = Entry<K, V::At<'p>>;
    const PADDED: bool =
        K::PADDED || V::PADDED || size_of::<K>() + size_of::<V>() != size_of::<Self>();
    const HANDLES: bool = V::HANDLES;
    type HandleTargets = V::HandleTargets;
    const LAYOUT: &'static Type = &Type::Compound {
        name: "Entry",
        size: size_of::<Self>(),
        align: align_of::<Self>(),
        params: &[],
        members: &[
            field("key", 0, K::LAYOUT),
            field("value", Self::VALUE, V::LAYOUT),
        ],
    };
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: invariant "Parts are inside": the fields of the entry that the caller vouches
        // for.
        unsafe {
            K::check(p, v)?;
            V::check(p.add(Self::VALUE), v)
        }
    }
    unsafe fn clear_padding(p: *mut u8) {
        // SAFETY: invariant "Parts are inside": the fields of the entry that the caller vouches
        // for, and the bytes that belong to neither.
        unsafe {
            K::clear_padding(p);
            V::clear_padding(p.add(Self::VALUE));
            let (key, end) = (size_of::<K>(), Self::VALUE + size_of::<V>());
            p.add(key).write_bytes(0, Self::VALUE - key);
            p.add(end).write_bytes(0, size_of::<Self>() - end);
        }
    }
}
