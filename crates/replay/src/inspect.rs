//! What a table holds, without the program that has made it.

use crate::error::{OpenError, Refused};
use crate::header::Kind;
use crate::layout::Config;
use crate::table::{Frame, Table};
use nvmem::{Model, Region};

/// One thing that a table tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Entry {
    /// The program, at depth 0, or the iteration of a loop that is running.
    Frame {
        /// How many loops deep.
        depth: u8,
        /// Which iteration; of the program, which run.
        iteration: u32,
    },
    /// A record of that frame.
    Record {
        /// What it is.
        kind: Kind,
        /// The low bits of the hash of its call site: 9, or 8 on 16-bit units. `None` there for a step without a result and
        /// a running loop, of which only the sum of site and arguments is kept.
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
/// **Errors**: [`OpenError`]; with the region back, as it always comes back.
pub fn inspect<'m, M: Model>(
    region: Region<'m, M>,
    tell: &mut dyn FnMut(Entry),
) -> Result<Region<'m, M>, Refused<'m, M>> {
    let mut t = Table::new(region);
    let found = match t.read(&Config::DEFAULT) {
        // Nothing has been committed yet.
        Ok(Some(_)) => return Ok(t.region),
        Ok(None) => t.scan().map_err(OpenError::Damaged),
        Err(e) => Err(e),
    };
    match found {
        Err(error) => Err(Refused {
            error,
            region: t.region,
        }),
        Ok(found) => {
            for level in 0..=found.depth {
                t.tell(level, tell);
            }
            tell(Entry::End {
                version: t.version(found.top.base),
                committed: found.committed,
            });
            Ok(t.region)
        }
    }
}

impl<M: Model> Table<'_, M> {
    fn tell(&self, level: usize, tell: &mut dyn FnMut(Entry)) {
        // Read a moment ago.
        let mut f = Frame::default();
        if self.frame(level, &mut f).is_err() {
            return;
        }
        tell(Entry::Frame {
            depth: level as u8,
            iteration: f.counter,
        });
        let (mut at, mut body) = (f.at, f.body);
        while at != f.end {
            let Some(h) = self.record(at, body, f.body_end) else {
                return;
            };
            tell(Entry::Record {
                kind: h.kind,
                site: Self::site(&h),
                bytes: h.units * Self::UNIT as u32,
            });
            at += Self::UNIT;
            body += h.total() as usize * Self::UNIT;
        }
    }
}
