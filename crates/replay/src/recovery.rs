//! Opening a table: format, find the records that count, refuse what no power cut leaves.

use crate::error::{ConfigItem, Damage, OpenError, OpenFailure};
use crate::header::{CallKind, RecordView};
use crate::layout::{self, Config, Geometry, OUTBOX, param};
use crate::table::{self, Cursor, Table};
use nvmem::superblock::{self, Differs, State, Superblock, View};
use nvmem::{LayoutMismatch, Model, Region};

/// What has happened so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanResult {
    /// All records.
    pub cursor: Cursor,
    /// The sequence number of the last transaction that is committed.
    pub committed: u32,
    /// The program's run.
    pub run: table::State,
}

/// Tells a record.
pub(crate) type RecordVisitor<'a, 'm, M> = dyn FnMut(&Table<'m, M>, &RecordView) + 'a;

/// Reads how a region is divided, and whether it was blank: then it must be formatted as `sb` says, into which is read what counts
/// if it was not.
///
/// **Errors**: the region holds something else.
#[inline(always)]
pub(crate) fn read_geometry<M: Model>(
    region: &Region<'_, M>,
    sb: &mut Superblock,
) -> Result<(Geometry, bool), OpenError> {
    let blank = match superblock::look(region, sb) {
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

/// Whether a region that is not ready may be formatted.
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
    // Something must be left for the pool.
    if region.len() <= geo.len {
        return Err(OpenError::TooSmall { needed: geo.len });
    }
    Ok(geo)
}

/// Why a region whose superblock says something else than `mine` cannot be opened.
#[inline(always)]
fn mismatch_error<M: Model>(
    stored: &View<'_, '_, M>,
    mine: &Superblock,
    other: Differs,
) -> OpenError {
    let (layout, expected) = (stored.layout(), mine.layout());
    match other {
        Differs::Layout if (layout.kind, layout.version) == (expected.kind, expected.version) => {
            OpenError::Pool(pmem_tx::OpenError::LayoutMismatch(LayoutMismatch {
                stored: layout,
                expected,
            }))
        }
        Differs::Layout => OpenError::OtherFormat,
        Differs::Param(param::UNIT) => OpenError::Config(ConfigItem::Unit),
        Differs::Param(param::LEN) => OpenError::Pool(pmem_tx::OpenError::OtherLength {
            formatted: stored.param(param::LEN) as usize,
        }),
        Differs::Param(_) => OpenError::Damaged(Damage::Superblock),
    }
}

/// How a region is divided, as its superblock tells; `None` of a blank one.
fn stored_geometry<M: Model>(region: &Region<'_, M>) -> Result<Option<Geometry>, OpenError> {
    let mut mine = layout::superblock::<M>(&Config::SMALL, None, region.len(), 0);
    let view = match superblock::look(region, &mine) {
        State::Ready(view) => view,
        state => return needs_format(state).map(|_| None),
    };
    // The types of its objects do not matter.
    mine.fingerprint = view.layout().fingerprint;
    if let Err(other) = view.agrees(&mut mine, param::STORED) {
        return Err(mismatch_error(&view, &mine, other));
    }
    geometry(region, &mine.params).map(Some)
}

/// Finds what is committed in a region, whatever the types of its objects are, and tells each record; `None` in a blank one.
///
/// **Errors**: [`OpenError`]; with the region back, as it always comes back.
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
    /// The table at the head of a region that is divided so.
    #[inline(always)]
    pub fn new(region: Region<'m, M>, geo: Geometry) -> Self {
        Table {
            region,
            geo,
            area_end: geo.area_end(false),
        }
    }

    /// How many records there are before the outermost loop that runs.
    #[cold]
    pub fn records_before_loop(&mut self) -> u16 {
        let (mut n, mut inside) = (0, false);
        // It has been looked through a moment ago.
        let _ = self.scan(&mut |table, head| {
            inside |= table.running_state(head).is_some();
            n += u16::from(!inside);
        });
        n
    }

    /// Everything that is looked at before it is written.
    #[inline(always)]
    pub fn format(&self, version: u16) {
        let mut at = OUTBOX;
        while at < self.geo.len {
            self.store(at, 0);
            at += Self::UNIT;
        }
        // After the largest number comes 1.
        let mark = table::State::start_bits(self.geo.seq_max, false);
        self.write_state(
            self.geo.run_state(),
            mark,
            u32::from(version) << Self::COUNTER_BITS,
        );
    }

    /// The state of a loop that runs, if this record is one's.
    pub fn running_state(&self, record: &RecordView) -> Option<table::State> {
        let state = (record.kind == CallKind::Loop).then(|| self.state(record.content));
        state.filter(|s| !s.done)
    }

    /// Finds the records that count, and tells each.
    ///
    /// **Cost**: reads their headers. **Errors**: what no power cut leaves.
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
    /// Whether a run's records are in the second area.
    pub fn second<M: Model>(&self) -> bool {
        self.counter >> (Table::<M>::COUNTER_BITS - 1) & 1 != 0
    }

    /// The version in a run's counter.
    pub fn version<M: Model>(&self) -> u16 {
        (self.counter >> Table::<M>::COUNTER_BITS) as u16
    }
}
