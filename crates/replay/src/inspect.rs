//! Lists the records of a table without the program that wrote them.

use crate::error::OpenError;
use crate::open::{self, ScanResult};
use crate::table::{CallKind, RecordView, Table};
use crate::threads::Tables;
use nvmem::{Model, Region};

/// One item of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum TableItem {
    /// The current iteration of a running loop. The records that follow belong to it.
    Iteration {
        /// The nesting depth of the loop, from 1.
        depth: u8,
        /// The iteration.
        iteration: u32,
    },
    /// A record. If it is a running loop, an [`TableItem::Iteration`] follows.
    Record {
        /// The kind of the record.
        kind: CallKind,
        /// The low bits of its call hash (kind, types and name): 9, or 8 on 16-bit units. On 16-bit
        /// units `None` for a loop and a step without a result: their records hold only a combined
        /// hash of call and arguments.
        call: Option<u16>,
        /// Bytes of content.
        bytes: u32,
    },
    /// The items up to the next [`TableItem::End`] belong to this thread of several.
    Thread {
        /// The index of its root in [`Contexts`](pmem_tx::Contexts).
        thread: u8,
    },
    /// The last item of a table: the program's version and the number of the last committed
    /// transaction.
    End {
        /// The program's version.
        version: u16,
        /// The sequence number of the last committed transaction.
        committed: u32,
    },
}

/// Calls `visit` with each item of the table at the start of `region`, or of each table if it is
/// one of several [`Threads`](crate::Threads). Writes nothing.
///
/// **Errors**: [`OpenError`].
pub fn inspect<M: Model>(
    region: &Region<'_, M>,
    visit: &mut dyn FnMut(TableItem),
) -> Result<(), OpenError> {
    if let Some(tables) = Tables::of(region)? {
        for n in 0..tables.count {
            visit(TableItem::Thread { thread: n as u8 });
            let found = tables.table(n).visit_records(record_visitor(visit));
            visit(end::<M>(&found.map_err(OpenError::Damaged)?));
        }
        return Ok(());
    }
    let found = open::scan_region(region, &mut record_visitor(visit))?;
    // A blank region holds nothing.
    if let Some(found) = found {
        visit(end::<M>(&found));
    }
    Ok(())
}

fn end<M: Model>(found: &ScanResult) -> TableItem {
    TableItem::End {
        version: found.run.version::<M>(),
        committed: found.committed,
    }
}

/// Passes the records of one table to `visit`.
fn record_visitor<M: Model>(
    visit: &mut dyn FnMut(TableItem),
) -> impl FnMut(&Table<'_, M>, &RecordView) {
    let mut depth = 0;
    move |table: &Table<'_, M>, record: &RecordView| {
        visit(TableItem::Record {
            kind: record.kind,
            call: record.call::<M>(),
            bytes: (record.end - record.content) as u32,
        });
        if let Some(state) = table.running_state(record) {
            depth += 1;
            visit(TableItem::Iteration {
                depth,
                iteration: state.counter,
            });
        }
    }
}
