//! The mirror: opened from its log, and saved to it.
//!
//! ```text
//! durable(owner)
//!   |  nothing changed since the last save of this boot? done
//!   |  a segment of this boot with room?
//!   |     yes -> append one record                                   then: flush
//!   |     no  -> begin a segment
//!   v
//!  flash      1  erase unreadable segments, and the target, where this boot has not yet
//!             2  header, base image
//!             3  marker, confirmation                                then: flush
//!
//!  no erase   1  zeros over the header that the target had
//!             2  base image
//!             3  header                                              then: flush
//! ```
//!
//! | cut in | the next boot finds |
//! |---|---|
//! | an erase, a header, a base image | the last save; the segment that is begun does not count |
//! | a marker, a confirmation | the last save, or this one |
//! | a record | the last save, or this one |
//! | flush, or after it | this save |
//!
//! [The log](crate::log) says why the next boot's choice is safe.

use super::{Medium, marker};
use crate::config::{Config, Durability};
use crate::error::MirrorError;
use crate::format::{
    Decoded, HEADER, Header, MAGIC, MAX_SEGMENTS, Shape, Sizes, lcm, record_bytes,
};
use crate::image::{Image, Runs};
use crate::log::{CONFIRMED, ERASED, Known, Log, MARKED, Tail, UNREADABLE};
use core::fmt;
use core::mem::MaybeUninit;
use core::ops::Range;
use nvmem::at_rest::AtRest;
use nvmem::crc::Crc32;
use nvmem::marker::{Marker, PIECE, Progress, erased};
use nvmem::{LayoutMismatch, Model, Ram, Region, planted};

/// A region in RAM whose content lives in a log on a medium. See [the crate](crate).
///
/// The region has the model [`Ram`], because all its bytes are saved. So no `&mut` to a type with
/// padding is lent there, and old bytes of RAM do not get to the medium. This does not compile
/// until `Meter` has a third field `spare: [u8; 3]`:
///
/// ```compile_fail,E0080
/// # use nv_mirror::nvmem::{Persist, Ram};
/// # use pmem_tx::{Error, Pool};
/// #[derive(Persist)]
/// #[repr(C)]
/// struct Meter {
///     sum: u32,
///     on: bool,
/// }
/// fn add(pool: &mut Pool<'_, Meter, Ram>) -> Result<(), Error> {
///     pool.tx(|tx, meter| Ok(meter.get_mut(tx)?.sum += 1))
/// }
/// # let _: fn(&mut Pool<'_, Meter, Ram>) -> _ = add;
/// ```
pub struct Mirror<'m, D> {
    medium: D,
    image: Image<'m>,
    log: Log,
    /// Commits until a save is due.
    every: u32,
    /// Commits that were not saved.
    unsaved: u32,
}

/// A mirror and its region. (Rustdoc shows what it stands for.)
type Opened<'m, D, M, E> = Result<(Mirror<'m, D>, Region<'m, Ram<M>>), MirrorError<E>>;

impl<D> fmt::Debug for Mirror<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut s = f.debug_struct("Mirror");
        let bytes = self.image.words() * 4;
        s.field("image", &bytes).field("log", &self.log);
        s.finish_non_exhaustive()
    }
}

impl<'m, D: Medium> Mirror<'m, D> {
    const SIZES: Sizes = Sizes::of(&D::CONTRACT);
    const FLASH: bool = D::CONTRACT.erase.is_some();
    /// Segments begin and end at multiples of this.
    const UNIT: u32 = lcm(D::CONTRACT.alignment(), Self::SIZES.unit);

    /// Opens the mirror in `range` of the medium. Returns it and its region, which holds what was
    /// saved last; zeros on a blank medium.
    ///
    /// The first half of `memory` is the region, the second half is the mirror's own. Give the
    /// region to its owner, for example `Pool::open`, and then call [`Mirror::durable`] before the
    /// program shows anything. Where a `u64` is aligned to less than 8 bytes, declare the memory in
    /// a type of `repr(align(8))`: otherwise its address decides the size of the region, and an
    /// image of another size is another layout.
    ///
    /// **Power loss**: nothing is written. **Cost**: reads the headers and one segment; another
    /// segment for each one whose writing was cut. On a medium without a log, reads the range.
    /// **Errors**: [`MirrorError`], except [`MirrorError::OtherRegion`] and
    /// [`MirrorError::OtherMirror`].
    pub fn open<M: Model>(
        medium: D,
        range: Range<u32>,
        config: &Config,
        memory: &'m mut [MaybeUninit<u64>],
    ) -> output!(Opened<'m, D, M, D::Error>) {
        steps!({
            let (mut mirror, region) = Self::new(medium, range, config, memory)?;
            wait!(mirror.load())?;
            Ok((mirror, region))
        })
    }

    // INVARIANT "Given up by a newer log": a log is erased only after an empty one counts that is
    // newer, also a log of another layout. An erase that was cut may read as blank, and later as
    // what was there; but then there is a log, so a boot erases what it cannot read.
    // Noticed by: tests/suite/generated/found.rs; planted `wiped-before-it-is-replaced`.

    /// As [`Mirror::open`], for any content of the range, which is lost. The region holds zeros.
    ///
    /// **Power loss**: a log of this layout is as it was, or empty. Where `open` refuses the range,
    /// call this again. After a save that has returned, nothing of the old content comes back.
    /// **Cost**: erases the range, or writes zeros to it, and begins a segment. **Errors**: those
    /// of [`Mirror::open`], except for the content of the range.
    pub fn format<M: Model>(
        medium: D,
        range: Range<u32>,
        config: &Config,
        memory: &'m mut [MaybeUninit<u64>],
    ) -> output!(Opened<'m, D, M, D::Error>) {
        steps!({
            let (mut mirror, mut region) = Self::new(medium, range, config, memory)?;
            wait!(mirror.scan::<true>())?;
            let logged = mirror.log.newest(MARKED).is_some();
            let replaces = logged && !planted!("nv-mirror/wiped-before-it-is-replaced");
            if replaces {
                let target = mirror.log.target();
                wait!(mirror.wipe(target))?;
            } else {
                wait!(mirror.wipe_all())?;
            }
            wait!(mirror.begin(&mut region))?;
            let empty = mirror.log.newest(CONFIRMED);
            for s in 0..mirror.log.count {
                if replaces && Some(s) != empty {
                    wait!(mirror.wipe(s))?;
                }
            }
            Ok((mirror, region))
        })
    }

    /// As [`Mirror::open`], and formats the range if it was never formatted: what it holds is
    /// neither blank nor a log, as in a new FRAM chip or where another program had its data. For
    /// the first boot of a device and all later ones.
    ///
    /// It never erases a mirror's log in this range: one of another version, of another size of the
    /// image, with another number of segments, or a damaged one stays as it is. So does a range
    /// that begins with `RL`, as all formats of Relume do. [`Mirror::format`] takes any range.
    ///
    /// **Power loss**: nothing is written where there is a log. A range that is being formatted
    /// holds parts of what it held, and the next call formats it. **Cost**: that of
    /// [`Mirror::open`], once; and to format, that of [`Mirror::format`]. Flash that reads as blank
    /// is erased, too, because an erase that was cut may read so: at each boot until a save ends.
    /// **Errors**: those of [`Mirror::open`]. [`MirrorError::Foreign`] means another format of
    /// Relume, or a log without an intact header.
    pub fn open_or_format<M: Model>(
        medium: D,
        range: Range<u32>,
        config: &Config,
        memory: &'m mut [MaybeUninit<u64>],
    ) -> output!(Opened<'m, D, M, D::Error>) {
        steps!({
            let (mut mirror, region) = Self::new(medium, range.clone(), config, memory)?;
            match wait!(mirror.load()) {
                Ok(()) if !mirror.log.is_blank() => return Ok((mirror, region)),
                Ok(()) => {
                    // A log of another shape may lie where this one's last segment does.
                    if !planted!("nv-mirror/others-look-blank") {
                        wait!(mirror.is_of_relume(range))?;
                    }
                    // An erase that was cut may read as blank now, and as other data later.
                    if !Self::FLASH || planted!("nv-mirror/cut-format-looks-blank") {
                        return Ok((mirror, region));
                    }
                }
                Err(MirrorError::Damaged) if planted!("nv-mirror/formats-damaged") => {}
                Err(MirrorError::Foreign) => {
                    let other = wait!(mirror.is_of_relume(range))?;
                    if other && !planted!("nv-mirror/formats-others") {
                        return Err(MirrorError::Foreign);
                    }
                }
                Err(e) => return Err(e),
            }
            wait!(mirror.wipe_all())?;
            Ok((mirror, region))
        })
    }

    fn new<M: Model>(
        medium: D,
        range: Range<u32>,
        config: &Config,
        memory: &'m mut [MaybeUninit<u64>],
    ) -> Opened<'m, D, M, D::Error> {
        let align = const { D::CONTRACT.alignment() };
        let count = config.segments;
        let least = if Self::FLASH && !planted!("nv-mirror/two-segments") {
            3
        } else {
            2
        };
        if count < least || count > MAX_SEGMENTS {
            return Err(MirrorError::BadSegments);
        }
        let (image, region) = Image::new::<M>(memory).ok_or(MirrorError::BadMemory)?;
        let bytes = image.words() as u32 * 4;
        if !range.start.is_multiple_of(align) || range.end > medium.capacity() {
            return Err(MirrorError::BadRange);
        }
        let len = range.end.checked_sub(range.start);
        let len = len.ok_or(MirrorError::BadRange)?;
        let segment = Self::segment(len, count);
        let least = Self::SIZES.least_segment(bytes);
        let least = least.next_multiple_of(Self::UNIT);
        if segment < least {
            let needed = least.saturating_mul(count.into());
            return Err(MirrorError::TooSmall { needed });
        }
        let mirror = Mirror {
            medium,
            image,
            log: Log::new(range.start, segment, count),
            every: match config.durability {
                Durability::BeforeOutput => u32::MAX,
                Durability::EachCommit => 1,
                Durability::Every(n) => n.max(1),
            },
            unsaved: 0,
        };
        Ok((mirror, region))
    }

    /// Bytes of a segment, if so many bytes are divided into so many.
    fn segment(len: u32, count: u8) -> u32 {
        len / u32::from(count) / Self::UNIT * Self::UNIT
    }

    /// Makes what the owner holds durable: after this, no power cut takes it back. A program calls
    /// it before it shows anything outside, also what it has found at boot.
    ///
    /// `owner` owns the region of this mirror, for example a pool. That it is borrowed mutably
    /// proves that no transaction is open.
    ///
    /// **Power loss**: the last save or this one counts. **Cost**: nothing if nothing changed since
    /// the last save of this boot. Otherwise one record: 8 bytes, and for each run of changed words
    /// 4 bytes and the words. On flash the first save of a boot, and elsewhere one that finds no
    /// room, begins a segment: the whole image without zeros, and on flash an erase. Compares image
    /// and shadow. To notice another mirror, a save that writes reads two headers of 24 bytes, and
    /// without erase 8 bytes or more where the record goes. **Errors**: [`MirrorError::Medium`];
    /// nothing that was durable is lost, and the next save begins a segment.
    /// [`MirrorError::OtherRegion`]. [`MirrorError::OtherMirror`].
    pub fn durable<T: AtRest>(
        &mut self,
        owner: &mut T,
    ) -> output!(Result<(), MirrorError<D::Error>>) {
        steps!({
            self.check(owner)?;
            if planted!("nv-mirror/failed-save-counts") {
                self.unsaved = 0;
            }
            wait!(self.save(owner))?;
            self.unsaved = 0;
            Ok(())
        })
    }

    /// Call it after each commit of the owner. It saves if
    /// [`Config::durability`](crate::Config::durability) says so.
    ///
    /// **Power loss**, **Cost**, **Errors**: as for [`Mirror::durable`], or nothing is done.
    pub fn committed<T: AtRest>(
        &mut self,
        owner: &mut T,
    ) -> output!(Result<(), MirrorError<D::Error>>) {
        steps!({
            self.count_commit();
            wait!(self.durable_if_due(owner))
        })
    }

    /// Counts a commit of the owner, for [`Mirror::durable_if_due`]. **Cost**: no save.
    pub fn count_commit(&mut self) {
        self.unsaved = self.unsaved.saturating_add(1);
    }

    /// Saves if [`Config::durability`](crate::Config::durability) says so, after the commits that
    /// were counted. If each commit is saved, an open on flash has found one that is not: a cut may
    /// take it back. Call this before the program sees what was found.
    ///
    /// **Power loss**, **Cost**, **Errors**: as for [`Mirror::durable`], or nothing is done.
    pub fn durable_if_due<T: AtRest>(
        &mut self,
        owner: &mut T,
    ) -> output!(Result<(), MirrorError<D::Error>>) {
        steps!({
            if self.unsaved < self.every {
                return Ok(());
            }
            wait!(self.durable(owner))
        })
    }

    /// Makes the owner's content durable, and room for one more save, so that it needs neither an
    /// erase nor more than [`Config::worst_save`](crate::Config::worst_save). Call it when idle, if
    /// the last save happens when the power fails.
    ///
    /// **Power loss**, **Errors**: as for [`Mirror::durable`]. **Cost**: begins a segment if there
    /// is no room.
    pub fn make_room<T: AtRest>(
        &mut self,
        owner: &mut T,
    ) -> output!(Result<(), MirrorError<D::Error>>) {
        steps!({
            wait!(self.durable(owner))?;
            let most = self.longest_record();
            if self.log.tail().is_some_and(|t| t.end - t.at >= most) {
                return Ok(());
            }
            wait!(self.check_others(true))?;
            wait!(self.begin(owner))
        })
    }

    /// Bytes that records can still take in the open segment; 0 if the next save begins one.
    pub fn room(&self) -> u32 {
        self.log.tail().map_or(0, |t| t.end - t.at)
    }

    /// The medium, for what a driver does besides reads and writes. Write nothing to the log's
    /// range.
    pub fn medium_mut(&mut self) -> &mut D {
        &mut self.medium
    }

    /// Gives the medium back. What is not durable is lost.
    pub fn close(self) -> D {
        self.medium
    }

    fn check<T: AtRest>(&self, owner: &mut T) -> Result<(), MirrorError<D::Error>> {
        if !owner.resting(|owned| self.image.is(&owned)) {
            return Err(MirrorError::OtherRegion);
        }
        if self.log.is_taken() {
            return Err(MirrorError::OtherMirror);
        }
        Ok(())
    }

    // INVARIANT "The shadow is the medium": while a segment is open, the shadow holds what the
    // medium does. A failed or dropped save closes the segment.
    // Noticed by: planted `goes-on-after-error`.

    fn save<T: AtRest>(&mut self, owner: &mut T) -> output!(Result<(), MirrorError<D::Error>>) {
        steps!({
            let Some(tail) = self.log.tail() else {
                wait!(self.check_others(!Self::FLASH))?;
                return wait!(self.begin(owner));
            };
            // From here on the shadow may be ahead of the medium. Then the segment is closed.
            let runs = owner.resting(|owned| self.image.take_changes(&owned));
            let bytes = runs.bytes();
            if bytes == 0 {
                return Ok(());
            }
            // Until the record is complete, the segment is closed.
            if !planted!("nv-mirror/goes-on-after-error") {
                self.log.close();
            }
            wait!(self.check_others(true))?;
            if Self::SIZES.padded(bytes) > tail.end - tail.at {
                return wait!(self.begin(owner));
            }
            let tail = wait!(self.write_record(tail, Some(&runs)))?;
            if !planted!("nv-mirror/no-flush") {
                wait!(self.medium.flush()).map_err(MirrorError::Medium)?;
            }
            self.log.continue_at(tail);
            self.saved(owner);
            Ok(())
        })
    }

    // INVARIANT "Log as left": a save writes only if no other mirror has written since this one's
    // last save or open. So of two mirrors that save in turn, none writes over what the other has
    // saved. What a save of its own has left incomplete is no difference: its check says so.
    // Noticed by: tests/suite/two.rs; planted `other-mirror-ignored`, `other-record-unseen`,
    // `other-segment-unseen`, `own-record-forgotten`, `torn-end-believed`,
    // `number-used-again`, `erased-stays-erased`, `unconfirmed-shows-another`,
    // `known-record-unchecked`, `first-number-was-there`.

    /// Refuses to save if another mirror has written the range. `begun`: this mirror has begun the
    /// newest segment, or the part needs no erase. Otherwise what it has found may read differently
    /// after a cut.
    ///
    /// | what another mirror has done | what shows it |
    /// |---|---|
    /// | begun a segment | its number is newer, and its base image is none of this mirror's |
    /// | appended a record | it follows the end that this mirror knows |
    /// | formatted, or begun a first segment again | a record that this mirror knows is another |
    ///
    /// What a cut has left of a save, this mirror has seen at its open, or the base image there is
    /// not intact, or on flash the segment is not confirmed.
    fn check_others(&mut self, begun: bool) -> output!(Result<(), MirrorError<D::Error>>) {
        steps!({
            if planted!("nv-mirror/other-mirror-ignored") {
                return Ok(());
            }
            if wait!(self.sees_other(begun))? {
                self.log.take();
                return Err(MirrorError::OtherMirror);
            }
            Ok(())
        })
    }

    fn sees_other(&mut self, begun: bool) -> output!(Result<bool, MirrorError<D::Error>>) {
        steps!({
            let newest = self.log.newest(MARKED);
            // An open may have read nothing of what a cut has left. This mirror erases that before
            // it completes a segment; until then only a save that has ended counts.
            let mut least = if begun { MARKED } else { CONFIRMED };
            if planted!("nv-mirror/unconfirmed-shows-another") {
                least = UNREADABLE;
            }
            for s in 0..self.log.count {
                let at = self.log.range(s).start;
                let (is_begun, header) = wait!(self.read_header(at))?;
                if is_begun {
                    self.log.found_begun(s);
                }
                let header = match header {
                    Decoded::Header(h, crc) if h.shape == self.shape() => Some((h.number, crc)),
                    _ => None,
                };
                let others = match header.filter(|(n, _)| self.log.is_new(s, *n, newest)) {
                    Some((number, crc)) => {
                        wait!(self.read_level(at, crc))? >= least
                            && wait!(self.others_follow(self.base(s, number)))?
                    }
                    None => false,
                };
                if others && !planted!("nv-mirror/other-segment-unseen") {
                    return Ok(true);
                }
            }
            if !wait!(self.is_as_known())? && !planted!("nv-mirror/known-record-unchecked") {
                return Ok(true);
            }
            match self.log.end() {
                Some(end) => wait!(self.others_follow(end)),
                None => Ok(false),
            }
        })
    }

    /// Whether the record is there that only another mirror changes.
    fn is_as_known(&mut self) -> output!(Result<bool, MirrorError<D::Error>>) {
        steps!({
            let Some(Known { at, check }) = self.log.known() else {
                return Ok(true);
            };
            let mut bytes = [0; 4];
            wait!(marker::read(&mut self.medium, at, &mut bytes)).map_err(MirrorError::Medium)?;
            Ok(u32::from_le_bytes(bytes) == check)
        })
    }

    /// Whether a record or a base image follows there that this mirror has not written. The last
    /// one of its own that does is the new end: a save of it has failed, and has stored it.
    fn others_follow(&mut self, end: Tail) -> output!(Result<bool, MirrorError<D::Error>>) {
        steps!({
            let mut reader = Reader::new(end);
            let mut end = end;
            while let Some(next) = wait!(self.read_record(&mut reader, end, false))? {
                if !self.log.is_own(next.check) || planted!("nv-mirror/own-record-forgotten") {
                    return Ok(true);
                }
                end = next;
                self.log.ends_at(end);
                reader.skip_to(end.at);
            }
            Ok(false)
        })
    }

    /// Where the base image of a segment with this number begins.
    fn base(&self, s: u8, number: u32) -> Tail {
        let Range { start, end } = self.log.range(s);
        let shape = self.shape();
        let (_, check) = Header { number, shape }.encode();
        let at = start + Self::SIZES.base;
        Tail {
            at,
            end,
            check,
            check_at: 0,
        }
    }

    /// A save has ended.
    #[inline(always)]
    fn saved<T: AtRest>(&mut self, owner: &mut T) {
        if planted!("nv-mirror/later-changes-count") {
            owner.resting(|owned| self.image.take_all(&owned));
        }
    }

    // INVARIANT "No header over what is written": without erase, the target has no valid header
    // while its base image is written, also if a save that did not return has completed one.
    // Noticed by: `two_dropped_saves_are_a_cut` in tests/suite/asynch.rs,
    // `two_saves_that_fail_lose_nothing` in tests/suite/basic.rs; planted `old-header-stays`,
    // `header-first`.

    /// Begins a segment with all of the image.
    fn begin<T: AtRest>(&mut self, owner: &mut T) -> output!(Result<(), MirrorError<D::Error>>) {
        steps!({
            self.log.close();
            if self.log.newest(MARKED).is_none() && !planted!("nv-mirror/cut-first-save-counts") {
                // Of the first save nothing counts until it ends, so the next one is the first too.
                self.log.forget();
            }
            let target = self.log.target();
            let Range { start, end } = self.log.range(target);
            if Self::FLASH {
                for s in 0..self.log.count {
                    if self.log.is_erased_before(s, target) {
                        wait!(self.wipe(s))?;
                    }
                }
            }
            let first = self.log.is_blank();
            let number = self.log.next_number();
            self.log.set(target, UNREADABLE, number);
            let shape = self.shape();
            let (header, crc) = Header { number, shape }.encode();
            self.log.tries(crc);
            let mut tail = Tail {
                at: start + Self::SIZES.base,
                end,
                check: crc,
                check_at: 0,
            };
            if Self::FLASH {
                wait!(self.order())?;
                wait!(self.write_header(start, &header))?;
                owner.resting(|owned| self.image.take_all(&owned));
                tail = wait!(self.write_record(tail, None))?;
                let at = start + Self::SIZES.header;
                let checksum = crc;
                let marker = Marker { at, checksum };
                wait!(marker::write_marker(&mut self.medium, marker))
                    .map_err(MirrorError::Medium)?;
            } else {
                // A save that did not return may have completed the header.
                if !planted!("nv-mirror/old-header-stays") {
                    wait!(self.write_header(start, &[0; HEADER as usize]))?;
                    if !planted!("nv-mirror/base-before-its-header-is-gone") {
                        wait!(self.order())?;
                    }
                }
                if planted!("nv-mirror/header-first") {
                    wait!(self.write_header(start, &header))?;
                }
                if first && !planted!("nv-mirror/old-records-come-back") {
                    // Records of a log whose header has rotted may fit this base image.
                    wait!(self.write_zeros(tail.at..tail.at + self.longest_record()))?;
                }
                owner.resting(|owned| self.image.take_all(&owned));
                tail = wait!(self.write_record(tail, None))?;
                wait!(self.order())?;
                wait!(self.write_header(start, &header))?;
                wait!(self.medium.flush()).map_err(MirrorError::Medium)?;
            }
            self.log.set(target, CONFIRMED, number);
            self.log.continue_at(tail);
            self.saved(owner);
            Ok(())
        })
    }

    /// What each open must find.
    fn shape(&self) -> Shape {
        Shape {
            image: self.image.words() as u32 * 4,
            segment: self.log.segment,
            segments: self.log.count.into(),
            word: D::CONTRACT.write_size as u16,
        }
    }

    /// Bytes of a record of all words.
    fn longest_record(&self) -> u32 {
        Self::SIZES.padded(record_bytes(self.image.words() as u32))
    }

    fn order(&mut self) -> output!(Result<(), MirrorError<D::Error>>) {
        steps!({ wait!(marker::order(&mut self.medium)).map_err(MirrorError::Medium) })
    }

    /// Erases a segment, or writes zeros to it.
    fn wipe(&mut self, s: u8) -> output!(Result<(), MirrorError<D::Error>>) {
        steps!({
            let Range { start, end } = self.log.range(s);
            self.log.drop(s);
            if Self::FLASH {
                wait!(self.medium.erase(start, end)).map_err(MirrorError::Medium)?;
                self.log.set_level(s, ERASED);
                return wait!(self.order());
            }
            wait!(self.write_zeros(start..end))?;
            wait!(self.medium.flush()).map_err(MirrorError::Medium)
        })
    }

    /// Wipes a range without a log.
    fn wipe_all(&mut self) -> output!(Result<(), MirrorError<D::Error>>) {
        steps!({
            let count = self.log.count;
            // First the segment that a first save has begun, if it was cut: while others are
            // erased, its header would make a damaged log of them.
            let mut first = count - 1;
            if planted!("nv-mirror/first-save-wiped-last") {
                first = 0;
            }
            for i in 0..count {
                wait!(self.wipe((first + i) % count))?;
            }
            self.log.forget();
            Ok(())
        })
    }

    /// Whether a segment begins as the formats of Relume do. It may be a segment of a mirror with
    /// any number of segments in this range, except the last one of this mirror. **Errors**: one
    /// has the header of another log.
    fn is_of_relume(&mut self, range: Range<u32>) -> output!(Result<bool, MirrorError<D::Error>>) {
        steps!({
            // There it may be a first save that was cut.
            let last = self.log.range(self.log.count - 1).start;
            let mut any = false;
            for count in 2..=MAX_SEGMENTS {
                let segment = Self::segment(range.end - range.start, count);
                for s in 0..count {
                    let at = range.start + u32::from(s) * segment;
                    // Segments may be smaller than any of this mirror.
                    if range.end - at < HEADER {
                        continue;
                    }
                    let (found, header) = wait!(self.read_header(at))?;
                    if let Some(e) = self.mismatch(&header) {
                        return Err(MirrorError::Layout(e));
                    }
                    any |= found && at != last;
                }
            }
            Ok(any)
        })
    }

    // INVARIANT "Nothing comes back": without erase, `begin` writes the first base image of a range
    // over zeros, so that no record of a log without a header follows it.
    // Noticed by: `records_without_a_header_do_not_come_back` in tests/suite/basic.rs; planted
    // `old-records-come-back`.

    fn write_zeros(&mut self, range: Range<u32>) -> output!(Result<(), MirrorError<D::Error>>) {
        steps!({
            let zeros = [0; PIECE];
            let most = const { PIECE as u32 / Self::SIZES.unit * Self::SIZES.unit };
            let Range { start: mut at, end } = range;
            while at < end {
                let n = most.min(end - at);
                let piece = zeros.get(..n as usize).unwrap_or_default();
                wait!(self.medium.write(at, piece)).map_err(MirrorError::Medium)?;
                at += n;
            }
            Ok(())
        })
    }

    fn write_header(
        &mut self,
        at: u32,
        header: &[u8; HEADER as usize],
    ) -> output!(Result<(), MirrorError<D::Error>>) {
        steps!({
            let mut buf = [0; PIECE];
            for (to, from) in buf.iter_mut().zip(header) {
                *to = *from;
            }
            let bytes = buf.get(..const { Self::SIZES.header as usize });
            wait!(self.medium.write(at, bytes.unwrap_or_default())).map_err(MirrorError::Medium)
        })
    }

    /// Writes a record of these runs, or a base image, from the shadow.
    fn write_record(
        &mut self,
        tail: Tail,
        runs: Option<&Runs>,
    ) -> output!(Result<Tail, MirrorError<D::Error>>) {
        steps!({
            let mut crc = Crc32::new().word(tail.check);
            if planted!("nv-mirror/checks-not-chained") {
                crc = Crc32::new();
            }
            let mut out = Piece {
                at: tail.at,
                bytes: [0; PIECE],
                len: 0,
            };
            let mut run = 0..0;
            // Runs, then a word of zero, then the check.
            let mut ended = false;
            loop {
                let word = if let Some(i) = run.next() {
                    self.image.saved(i)
                } else if ended {
                    break;
                } else if let Some(r) = self.image.next_run(run.end, runs) {
                    run = r;
                    run.start as u32 | (run.len() as u32) << 16
                } else {
                    ended = true;
                    0
                };
                crc = crc.word(word);
                wait!(self.append(&mut out, word))?;
            }
            let check = crc.finish();
            // Before its last word: what is read back with this check is of this mirror.
            self.log.own_check = check;
            wait!(self.append(&mut out, check))?;
            if let Some((at, bytes)) = out.last::<D>() {
                wait!(self.medium.write(at, bytes)).map_err(MirrorError::Medium)?;
            }
            let end = out.at + out.len as u32;
            Ok(Tail {
                at: Self::SIZES.padded(end - tail.at) + tail.at,
                end: tail.end,
                check,
                check_at: end - 4,
            })
        })
    }

    /// Adds a word to a record. Writes the piece if it is full.
    fn append(&mut self, out: &mut Piece, word: u32) -> output!(Result<(), MirrorError<D::Error>>) {
        steps!({
            if let Some((at, bytes)) = out.push::<D>(word) {
                wait!(self.medium.write(at, bytes)).map_err(MirrorError::Medium)?;
                out.next();
            }
            Ok(())
        })
    }

    /// Whether a segment begins as the formats of Relume do; and its header.
    fn read_header(&mut self, at: u32) -> output!(Result<(bool, Decoded), MirrorError<D::Error>>) {
        steps!({
            let mut bytes = [0; HEADER as usize];
            wait!(marker::read(&mut self.medium, at, &mut bytes)).map_err(MirrorError::Medium)?;
            let [a, b, ..] = bytes;
            let of_relume = [a, b] == [MAGIC[0], MAGIC[1]];
            Ok((of_relume, Header::decode(&bytes)))
        })
    }

    /// The level of a segment with a header of this check.
    fn read_level(&mut self, at: u32, crc: u32) -> output!(Result<u8, MirrorError<D::Error>>) {
        steps!({
            if !Self::FLASH {
                return Ok(CONFIRMED);
            }
            let at = at + Self::SIZES.header;
            let marker = Marker { at, checksum: crc };
            let progress = wait!(marker::read_progress(&mut self.medium, marker));
            Ok(match progress.map_err(MirrorError::Medium)? {
                Progress::Confirmed => CONFIRMED,
                Progress::Marked => MARKED,
                _ => UNREADABLE,
            })
        })
    }

    /// The error for the header of another log.
    fn mismatch(&self, header: &Decoded) -> Option<LayoutMismatch> {
        let mine = self.shape();
        match header {
            Decoded::Header(h, _) if h.shape != mine => {
                Some(mine.mismatch(MAGIC[3], Some(&h.shape)))
            }
            Decoded::Other(version) => Some(mine.mismatch(*version, None)),
            _ => None,
        }
    }

    // INVARIANT "What is read persists": a mirror believes only what a flush has made durable. An
    // earlier mirror of this power-on period, whose save failed, may have left writes in a buffer.
    // Noticed by: tests/suite/generated/found.rs; planted `buffer-believed`.

    /// Reads the headers; those of other layouts too, if the log is to be given up (`ANY`).
    /// **Errors**: otherwise there is one of those.
    fn scan<const ANY: bool>(&mut self) -> output!(Result<(), MirrorError<D::Error>>) {
        steps!({
            if !planted!("nv-mirror/buffer-believed") {
                wait!(self.medium.flush()).map_err(MirrorError::Medium)?;
            }
            for s in 0..self.log.count {
                let at = self.log.range(s).start;
                let (_, header) = wait!(self.read_header(at))?;
                if !ANY && let Some(e) = self.mismatch(&header) {
                    return Err(MirrorError::Layout(e));
                }
                let (number, crc) = match header {
                    Decoded::Header(h, crc) => (h.number, crc),
                    Decoded::Other(_) => {
                        // Of another version only this is known: it must not come back.
                        self.log.set(s, CONFIRMED, 0);
                        continue;
                    }
                    Decoded::Nothing => continue,
                };
                let level = wait!(self.read_level(at, crc))?;
                self.log.set(s, level, number);
            }
            Ok(())
        })
    }

    // INVARIANT "First a segment of its own": on flash no record follows one of an earlier boot,
    // and nothing is durable in a boot before its own segment. On flash `load` leaves the log
    // without a tail, and if each commit is saved, what it has found is one that is not.
    // Noticed by: planted `appends-after-boot`, `found-counts-as-saved`.

    /// Brings the newest intact segment to RAM.
    fn load(&mut self) -> output!(Result<(), MirrorError<D::Error>>) {
        steps!({
            wait!(self.scan::<false>())?;
            if Self::FLASH && wait!(self.is_first_save_cut())? {
                // Its base image is complete: the marker was begun later.
                let last = self.log.count - 1;
                let base = self.base(last, 1);
                let found = wait!(self.read_record(&mut Reader::new(base), base, false))?;
                self.log.drop(last);
                self.log.forget();
                if let Some(end) = found {
                    self.log.knows(end);
                }
                return Ok(());
            }
            while let Some(s) = self.log.newest(MARKED) {
                if let Some(tail) = wait!(self.load_segment(s))? {
                    if wait!(self.is_blank_at(tail))? {
                        self.log.ends_at(tail);
                    }
                    // On flash the last record may be unstable, so this boot begins a segment.
                    if !Self::FLASH || planted!("nv-mirror/appends-after-boot") {
                        self.log.continue_at(tail);
                    } else if !planted!("nv-mirror/found-counts-as-saved") {
                        self.unsaved = u32::from(self.every == 1);
                    }
                    return Ok(());
                }
                self.image.clear();
                if !Self::FLASH {
                    // Its header was written last.
                    return Err(MirrorError::Damaged);
                }
                self.log.drop(s);
            }
            wait!(self.check_blank())
        })
    }

    /// Whether flash is blank behind the last record. Otherwise a record that was cut may lie
    /// there, and may read as whole later.
    fn is_blank_at(&mut self, end: Tail) -> output!(Result<bool, MirrorError<D::Error>>) {
        steps!({
            let (at, behind) = (end.at, end.at + Self::SIZES.unit);
            if !Self::FLASH || behind > end.end {
                return Ok(false);
            }
            if planted!("nv-mirror/torn-end-believed") {
                return Ok(true);
            }
            let fill = const { erased(&D::CONTRACT) };
            wait!(marker::all_bytes_are(&mut self.medium, at, behind, fill))
                .map_err(MirrorError::Medium)
        })
    }

    // INVARIANT "The first save is the first": until a save of a blank range has ended, each save
    // is its first: number 1, in the last segment, and no other segment is touched. Also in
    // `begin`.
    // Noticed by: `two_dropped_saves_are_a_cut` in tests/suite/asynch.rs; planted
    // `cut-first-save-counts`, `first-save-goes-on`.

    /// Whether the range holds only the first segment, with a marker that may be unstable. Nothing
    /// is durable then. The next save writes it again and touches no other segment: if that were
    /// cut, a later boot could find other data, and no segment.
    fn is_first_save_cut(&mut self) -> output!(Result<bool, MirrorError<D::Error>>) {
        steps!({
            let last = self.log.count - 1;
            let first = self.log.newest(CONFIRMED).is_none()
                && self.log.newest(MARKED) == Some(last)
                && self.log.number(last) == 1;
            if planted!("nv-mirror/first-save-goes-on") {
                return Ok(false);
            }
            Ok(first && wait!(self.is_blank_but_last())?)
        })
    }

    /// Whether all is blank except what the first save writes: the last segment, or without erase
    /// the first part of it.
    fn is_blank_but_last(&mut self) -> output!(Result<bool, MirrorError<D::Error>>) {
        steps!({
            let start = self.log.start;
            let Range { start: last, end } = self.log.range(self.log.count - 1);
            let most = self.longest_record();
            let mut unwritten = last + Self::SIZES.base + most..end;
            if Self::FLASH || planted!("nv-mirror/last-segment-ignored") {
                unwritten.start = end;
            }
            let fill = const { erased(&D::CONTRACT) };
            for fill in [fill, 0] {
                let mut blank = true;
                for Range { start, end } in [start..last, unwritten.clone()] {
                    blank = blank
                        && wait!(marker::all_bytes_are(&mut self.medium, start, end, fill))
                            .map_err(MirrorError::Medium)?;
                }
                if blank || Self::FLASH {
                    return Ok(blank);
                }
            }
            Ok(false)
        })
    }

    // INVARIANT "Blank is not damaged": a range counts as blank only if all that the first save
    // cannot have written is blank, and the last segment has no header or that of the first save.
    // Noticed by: `damage_is_not_a_blank_range`, `other_data_in_the_last_segment` in
    // tests/suite/basic.rs; planted `damaged-is-blank`, `last-segment-ignored`.

    /// No segment counts: whether the range is blank. What the first save writes may hold anything,
    /// because that may have been cut.
    fn check_blank(&mut self) -> output!(Result<(), MirrorError<D::Error>>) {
        steps!({
            let last = self.log.count - 1;
            // The header of the last segment, if it has one, is that of the first save.
            let mut first = self.log.is_blank() || self.log.number(last) == 1;
            if planted!("nv-mirror/damaged-is-blank") {
                first = true;
            }
            if first && wait!(self.is_blank_but_last())? {
                self.log.forget();
                return Ok(());
            }
            if self.log.is_blank() {
                return Err(MirrorError::Foreign);
            }
            Err(MirrorError::Damaged)
        })
    }

    /// Reads a segment to the image. `None` if its base image is not intact.
    fn load_segment(&mut self, s: u8) -> output!(Result<Option<Tail>, MirrorError<D::Error>>) {
        steps!({
            let mut tail = self.base(s, self.log.number(s));
            let mut reader = Reader::new(tail);
            let mut base = false;
            while let Some(next) = wait!(self.read_record(&mut reader, tail, true))? {
                // A confirmed base image is stable, and this mirror does not write over it.
                if !base && self.log.level(s) == CONFIRMED {
                    self.log.knows(next);
                }
                base = true;
                tail = next;
                reader.skip_to(tail.at);
            }
            Ok(base.then_some(tail))
        })
    }

    /// A planted bug: takes over the words of a second read, which nobody checks.
    fn read_again(&mut self, tail: Tail) -> output!(Result<(), D::Error>) {
        steps!({
            let mut reader = Reader::new(tail);
            let mut run = 0..0;
            while let Some(word) = wait!(reader.next(&mut self.medium))? {
                let (from, len) = ((word & 0xFFFF) as usize, (word >> 16) as usize);
                if let Some(i) = run.next() {
                    self.image.put(i, word);
                } else if len == 0 || from + len > self.image.words() {
                    break;
                } else {
                    run = from..from + len;
                }
            }
            Ok(())
        })
    }

    // INVARIANT "Read once": the bytes of a record that are checked are those that are used. They
    // go to the image, and then to the shadow.
    // Noticed by: planted `record-read-twice`, `torn-record-stays`, `check-ignored`.

    /// Reads one record; to the image if `load` says so. `None`, and the image as before, if it is
    /// none.
    fn read_record(
        &mut self,
        reader: &mut Reader,
        tail: Tail,
        load: bool,
    ) -> output!(Result<Option<Tail>, MirrorError<D::Error>>) {
        steps!({
            let words = self.image.words();
            let mut crc = Crc32::new().word(tail.check);
            if planted!("nv-mirror/checks-not-chained") {
                crc = Crc32::new();
            }
            // What the record has written: `low..high`.
            let (mut low, mut high) = (words, 0);
            let mut run = 0..0;
            loop {
                let Some(word) =
                    wait!(reader.next(&mut self.medium)).map_err(MirrorError::Medium)?
                else {
                    break;
                };
                crc = crc.word(word);
                if let Some(i) = run.next() {
                    if load {
                        self.image.put(i, word);
                        high = i + 1;
                    }
                    continue;
                }
                let (from, len) = ((word & 0xFFFF) as usize, (word >> 16) as usize);
                if len > 0 {
                    if from < run.end || len > words || from > words - len {
                        break;
                    }
                    if load {
                        low = low.min(from);
                    }
                    run = from..from + len;
                    continue;
                }
                let check = wait!(reader.next(&mut self.medium)).map_err(MirrorError::Medium)?;
                let mut intact = word == 0 && check == Some(crc.finish());
                if word == 0 && planted!("nv-mirror/check-ignored") {
                    intact = true;
                }
                if !intact {
                    break;
                }
                let check = crc.finish();
                if planted!("nv-mirror/record-read-twice") {
                    self.image.reject(low..high);
                    wait!(self.read_again(tail)).map_err(MirrorError::Medium)?;
                }
                self.image.accept(low..high);
                let end = reader.position();
                return Ok(Some(Tail {
                    at: Self::SIZES.padded(end - tail.at) + tail.at,
                    end: tail.end,
                    check,
                    check_at: end - 4,
                }));
            }
            if !planted!("nv-mirror/torn-record-stays") {
                self.image.reject(low..high);
            }
            Ok(None)
        })
    }
}

/// The words of a record on their way to the medium.
struct Piece {
    at: u32,
    bytes: [u8; PIECE],
    len: usize,
}

impl Piece {
    /// Adds a word. Returns what is to be written if the piece is full.
    fn push<D: Medium>(&mut self, w: u32) -> Option<(u32, &[u8])> {
        let most = const {
            let unit = Sizes::of(&D::CONTRACT).unit as usize;
            PIECE / unit * unit
        };
        if let Some(to) = self.bytes.get_mut(self.len..self.len + 4) {
            to.copy_from_slice(&w.to_le_bytes());
        }
        self.len += 4;
        if self.len < most {
            return None;
        }
        Some((self.at, self.bytes.get(..self.len).unwrap_or_default()))
    }

    /// The full piece was written.
    fn next(&mut self) {
        self.at += self.len as u32;
        self.len = 0;
    }

    /// The rest, with zeros up to the medium's word.
    fn last<D: Medium>(&mut self) -> Option<(u32, &[u8])> {
        if self.len == 0 {
            return None;
        }
        let unit = const { Sizes::of(&D::CONTRACT).unit as usize };
        let end = self.len.next_multiple_of(unit);
        if let Some(rest) = self.bytes.get_mut(self.len..end) {
            rest.fill(0);
        }
        Some((self.at, self.bytes.get(..end).unwrap_or_default()))
    }
}

/// Reads the words of a segment, each once.
struct Reader {
    /// Where the next piece is read.
    at: u32,
    end: u32,
    bytes: [u8; 64],
    /// The part of the piece that was not taken yet.
    unread: Range<usize>,
}

impl Reader {
    fn new(tail: Tail) -> Self {
        Reader {
            at: tail.at,
            end: tail.end,
            bytes: [0; 64],
            unread: 0..0,
        }
    }

    /// The offset of the next word.
    fn position(&self) -> u32 {
        self.at - self.unread.len() as u32
    }

    /// Continues at `at`, which is not before the next word.
    fn skip_to(&mut self, at: u32) {
        let skip = (at - self.position()) as usize;
        if skip <= self.unread.len() {
            self.unread.start += skip;
        } else {
            (self.at, self.unread) = (at, 0..0);
        }
    }

    /// The next word; `None` at the end of the segment.
    fn next<D: Medium>(&mut self, medium: &mut D) -> output!(Result<Option<u32>, D::Error>) {
        steps!({
            if self.unread.is_empty() {
                let n = (self.end - self.at).min(64) as usize;
                let piece = self.bytes.get_mut(..n).unwrap_or_default();
                wait!(marker::read(medium, self.at, piece))?;
                self.at += n as u32;
                self.unread = 0..n;
            }
            let from = self.unread.start;
            let word = self.bytes.get(from..from + 4);
            let word = word
                .filter(|_| self.unread.len() >= 4)
                .and_then(|w| w.first_chunk());
            self.unread.start = (from + 4).min(self.unread.end);
            Ok(word.map(|w| u32::from_le_bytes(*w)))
        })
    }
}
