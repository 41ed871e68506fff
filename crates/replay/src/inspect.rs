//! What a table holds, without the program that has made it.

use crate::error::OpenFailure;
use crate::header::{CallKind, RecordView};
use crate::recovery;
use crate::table::Table;
use nvmem::{Model, Region};

/// One thing that a table tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum TableItem {
    /// The iteration of a loop that is running: the records that follow are its own.
    Iteration {
        /// How many loops deep, from 1.
        depth: u8,
        /// Which iteration.
        iteration: u32,
    },
    /// A record. Of a loop that is running, its iteration is told next.
    Record {
        /// What it is.
        kind: CallKind,
        /// The low bits of the hash of its call site: 9, or 8 on 16-bit units. `None` there for a step without a result and
        /// a loop, of which only the sum of site and arguments is kept.
        site: Option<u16>,
        /// Bytes of content.
        bytes: u32,
    },
    /// The end: the program's version, and the number of the last transaction that is committed.
    End {
        /// The program's version.
        version: u16,
        /// The sequence number.
        committed: u32,
    },
}

/// Tells what the table at the start of `region` holds. Writes nothing.
///
/// **Errors**: [`OpenError`](crate::OpenError); with the region back, as it always comes back.
pub fn inspect<'m, M: Model>(
    region: Region<'m, M>,
    tell: &mut dyn FnMut(TableItem),
) -> Result<Region<'m, M>, OpenFailure<'m, M>> {
    let mut depth = 0;
    let mut seen = |table: &Table<'_, M>, record: &RecordView| {
        tell(TableItem::Record {
            kind: record.kind,
            site: record.site::<M>(),
            bytes: (record.end - record.content) as u32,
        });
        if let Some(state) = table.running_state(record) {
            depth += 1;
            tell(TableItem::Iteration {
                depth,
                iteration: state.counter,
            });
        }
    };
    let (found, region) = recovery::scan_region(region, &mut seen)?;
    // Of a blank region nothing has been committed yet.
    if let Some(found) = found {
        tell(TableItem::End {
            version: found.run.version::<M>(),
            committed: found.committed,
        });
    }
    Ok(region)
}
