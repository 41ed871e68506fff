//! Recovery: finds the records that count, and refuses states that no power cut leaves.
//!
//! ```text
//! run's start word: number 41, area 0
//!       |
//!       v   expected
//! header 0: 42  ok -> payload 0, its length from the header
//! header 1: 43  ok -> a running loop; continue with the number in its start word: 57
//! header 2: 58  ok
//! header 3: 45  not 59 -> stop. The last committed number is 58; header 3 is free.
//! ```
//!
//! One forward pass, one comparison per record. A record counts if and only if all records before
//! it count and its header holds the next number (invariant "Place decides"). Recovery never asks
//! which of two numbers is newer, so numbers may wrap. The scan writes nothing: after
//! a cut during recovery, the next open reads the same.
//!
//! Safe on any bytes: each record must lie inside of its area, headers above payloads, and each
//! record moves the header position down, so the scan ends. A record that counts but has no valid
//! form is [`Damage`]: a header is stored after its payload, so no power cut leaves it.

use crate::error::{ConfigItem, Damage, OpenError, OpenFailure};
use crate::header::{CallKind, RecordView};
use crate::layout::{self, Config, Geometry, OUTBOX, param};
use crate::table::{self, Cursor, Table};
use nvmem::superblock::{self, Difference, State, Superblock, View};
use nvmem::{LayoutMismatch, Model, Region};

/// The result of a scan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanResult {
    /// A cursor over all records that count.
    pub cursor: Cursor,
    /// The sequence number of the last committed transaction.
    pub committed: u32,
    /// The state of the program's run.
    pub run: table::State,
}

/// Called with each record.
pub(crate) type RecordVisitor<'a, 'm, M> = dyn FnMut(&Table<'m, M>, &RecordView) + 'a;

/// Reads the layout of a region, and whether it must be formatted as `sb` says. If not, replaces
/// parameters of `sb` by the stored ones.
///
/// **Errors**: the region holds something else.
#[inline(always)]
pub(crate) fn read_geometry<M: Model>(
    region: &Region<'_, M>,
    sb: &mut Superblock,
) -> Result<(Geometry, bool), OpenError> {
    let blank = match superblock::probe_view(region, sb) {
        State::Ready(stored) => {
            if let Err(other) = stored.agrees(sb, param::STORED) {
                return Err(mismatch_error(&stored, sb, other));
            }
            false
        }
        state => needs_format(state)?,
    };
    Ok((geometry(region, &sb.params)?, blank))
}

/// Whether a region must be formatted, given the state of its superblock.
#[inline(always)]
fn needs_format<S>(state: State<S>) -> Result<bool, OpenError> {
    match state {
        State::Blank | State::Formatting => Ok(true),
        State::Ready(_) => Ok(false),
        State::Foreign => Err(OpenError::Foreign),
        State::Damaged => Err(OpenError::Damaged(Damage::Superblock)),
    }
}

#[inline(always)]
fn geometry<M: Model>(region: &Region<'_, M>, params: &[u32; 8]) -> Result<Geometry, OpenError> {
    let geo = Geometry::new::<M>(params).map_err(OpenError::Config)?;
    // Some bytes must remain for the pool.
    if region.len() <= geo.len {
        return Err(OpenError::TooSmall { needed: geo.len });
    }
    Ok(geo)
}

/// The error for a region whose superblock differs from `mine`.
#[inline(always)]
fn mismatch_error<M: Model>(
    stored: &View<'_, '_, M>,
    mine: &Superblock,
    other: Difference,
) -> OpenError {
    let (layout, expected) = (stored.layout(), mine.layout());
    match other {
        Difference::Layout
            if (layout.kind, layout.version) == (expected.kind, expected.version) =>
        {
            OpenError::Pool(pmem_tx::OpenError::LayoutMismatch(LayoutMismatch {
                stored: layout,
                expected,
            }))
        }
        Difference::Layout => OpenError::OtherFormat,
        Difference::Param(param::UNIT) => OpenError::Config(ConfigItem::Unit),
        Difference::Param(param::LEN) => OpenError::Pool(pmem_tx::OpenError::OtherLength {
            formatted: stored.param(param::LEN) as usize,
        }),
        Difference::Param(_) => OpenError::Damaged(Damage::Superblock),
    }
}

/// The layout of a region according to its superblock; `None` if it is blank.
fn stored_geometry<M: Model>(region: &Region<'_, M>) -> Result<Option<Geometry>, OpenError> {
    let mut mine = layout::superblock::<M>(&Config::SMALL, None, region.len(), 0);
    let view = match superblock::probe_view(region, &mine) {
        State::Ready(view) => view,
        state => return needs_format(state).map(|_| None),
    };
    // The types of its objects do not matter here.
    mine.fingerprint = view.layout().fingerprint;
    if let Err(other) = view.agrees(&mut mine, param::STORED) {
        return Err(mismatch_error(&view, &mine, other));
    }
    geometry(region, &mine.params).map(Some)
}

/// Scans a region without knowing its objects' types, and calls `visit` with each record. `None`
/// for a blank region.
///
/// The region comes back in every case. **Errors**: [`OpenError`].
pub(crate) fn scan_region<'m, M: Model>(
    region: Region<'m, M>,
    visit: &mut RecordVisitor<'_, 'm, M>,
) -> Result<(Option<ScanResult>, Region<'m, M>), OpenFailure<'m, M>> {
    let geo = match stored_geometry(&region) {
        Ok(Some(geo)) => geo,
        Ok(None) => return Ok((None, region)),
        Err(error) => return Err(OpenFailure { error, region }),
    };
    let mut table = Table::new(region, geo);
    match table.scan(visit) {
        Ok(found) => Ok((Some(found), table.region)),
        Err(damage) => Err(OpenFailure {
            error: OpenError::Damaged(damage),
            region: table.region,
        }),
    }
}

impl<'m, M: Model> Table<'m, M> {
    /// The table at the start of a region with this layout.
    #[inline(always)]
    pub fn new(region: Region<'m, M>, geo: Geometry) -> Self {
        Table {
            region,
            geo,
            area_end: geo.area_end(false),
        }
    }

    /// The number of records before the outermost running loop.
    #[cold]
    pub fn records_before_loop(&mut self) -> u16 {
        let (mut n, mut inside) = (0, false);
        // Cannot fail: the same table was scanned at open.
        let _ = self.scan(&mut |table, head| {
            inside |= table.running_state(head).is_some();
            n += u16::from(!inside);
        });
        n
    }

    /// Formats a table: clears all words and begins the first run.
    #[inline(always)]
    pub fn format(&self, version: u16) {
        let mut at = OUTBOX;
        while at < self.geo.len {
            self.store(at, 0);
            at += Self::UNIT;
        }
        // The number after the largest is 1.
        let mark = table::State::start_bits(self.geo.seq_max, false);
        self.write_state(
            self.geo.run_state(),
            mark,
            u32::from(version) << Self::COUNTER_BITS,
        );
    }

    /// The state of the record's loop, if it is a running loop.
    pub fn running_state(&self, record: &RecordView) -> Option<table::State> {
        let state = (record.kind == CallKind::Loop).then(|| self.state(record.content));
        state.filter(|s| !s.done)
    }

    /// Finds the records that count, and calls `visit` with each.
    ///
    /// **Cost**: reads their headers. **Errors**: a state that no power cut leaves.
    #[inline(always)]
    pub fn scan(&mut self, visit: &mut RecordVisitor<'_, 'm, M>) -> Result<ScanResult, Damage> {
        let run = self.state(self.geo.run_state());
        if run.seq == 0 {
            return Err(Damage::Start);
        }
        self.area_end = self.geo.area_end(run.second::<M>());
        let mut cursor = self.empty_area(self.area_end);
        let (mut at, mut payload, mut committed) = (cursor.at, cursor.payload, run.seq);
        while self.is_successor(at, payload, committed) {
            let bad = Damage::Record {
                record: self.record_index(at),
            };
            let Some(head) = self.read_record(at, payload) else {
                return Err(bad);
            };
            committed = self.geo.next(committed);
            if head.kind == CallKind::Loop {
                if head.end - head.content != Self::STATE {
                    return Err(bad);
                }
                committed = self.state_seq(head.content);
                if committed == 0 {
                    return Err(bad);
                }
            }
            payload = head.end;
            at -= Self::UNIT;
            visit(self, &head);
        }
        cursor.end = at;
        Ok(ScanResult {
            cursor,
            committed,
            run,
        })
    }
}

impl table::State {
    /// Whether the run's records are in the second area.
    pub fn second<M: Model>(&self) -> bool {
        self.counter >> (Table::<M>::COUNTER_BITS - 1) & 1 != 0
    }

    /// The program's version in the counter of a run.
    pub fn version<M: Model>(&self) -> u16 {
        (self.counter >> Table::<M>::COUNTER_BITS) as u16
    }
}
