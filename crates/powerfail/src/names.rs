//! Names of media, fields and events in reports and failure lines.

use crate::engine::Engine;
use crate::hash::Wide;
use crate::trace::{Event, Trace};
use std::collections::HashMap;

/// Replaces characters that separate the parts of a line.
pub(crate) fn plain(name: &str) -> String {
    let odd = |c: char| c.is_whitespace() || c.is_control() || "@/{}^!#=,'\"".contains(c);
    name.replace(odd, "_")
}

fn hex(bytes: &[u8]) -> String {
    if bytes.len() > 8 {
        return format!("h{:08x}", Wide::of(bytes) as u32);
    }
    bytes.iter().rev().map(|b| format!("{b:02x}")).collect()
}

/// A word as a number, for reports.
pub(crate) fn number(bytes: &[u8]) -> String {
    if bytes.len() > 8 {
        return format!("{} bytes", bytes.len());
    }
    let v = bytes
        .iter()
        .rev()
        .fold(0_u64, |v, b| v << 8 | u64::from(*b));
    if v < 10 {
        v.to_string()
    } else {
        format!("{v:#x}")
    }
}

impl Engine<'_> {
    /// The name of a location: the field, or the offset in the medium.
    pub(crate) fn location(&self, at: u32) -> String {
        let i = self.parts.partition_point(|p| p.at <= at) - 1;
        let off = at - self.parts[i].at;
        let field = self
            .setup
            .fields
            .iter()
            .filter(|(p, r, _)| *p == i && r.contains(&off))
            .min_by_key(|(_, r, _)| r.len());
        match field {
            Some((_, r, n)) if r.start == off => n.clone(),
            Some((_, r, n)) => format!("{n}+{}", off - r.start),
            None if self.parts.len() == 1 => format!("{off:#x}"),
            None => format!("{}[{i}]+{off:#x}", self.parts[i].name),
        }
    }

    /// For each event a token that identifies it in its boot: its kind, its location, how many of
    /// that kind came before it there, and its value.
    pub(crate) fn tokens<'t>(
        &self,
        trace: &'t Trace,
    ) -> impl Iterator<Item = String> + use<'_, 't> {
        let mut seen: HashMap<(char, u32), u32> = HashMap::new();
        trace.events.iter().map(move |e| {
            let (kind, at, value) = match *e {
                Event::Store { at, len, new, .. } => {
                    ('=', at, hex(&new.to_le_bytes()[..len as usize]))
                }
                Event::Touched { at, len, new, .. } => {
                    ('*', at, hex(&new.to_le_bytes()[..len as usize]))
                }
                Event::Program { at, len, side, .. } => ('=', at, hex(trace.old_new(side, len).1)),
                Event::Fence { .. } => ('f', 0, String::new()),
                Event::World(_) => ('w', 0, String::new()),
                Event::Lend { at, .. } => ('+', at, String::new()),
                Event::EndLoan { at, .. } => ('-', at, String::new()),
                Event::Read { at, .. } => ('?', at, String::new()),
                Event::Scratch { at, .. } => ('%', at, String::new()),
                Event::Stable { at, .. } | Event::Unstable { at, .. } | Event::Erased { at } => {
                    ('&', at, String::new())
                }
            };
            let n = seen.entry((kind, at)).or_default();
            *n += 1;
            match kind {
                '=' => format!("{}#{n}={value}", self.location(at)),
                '*' => format!("*{}#{n}={value}", self.location(at)),
                'f' => format!("fence#{n}"),
                'w' => format!("world#{n}"),
                k => format!("{k}{}#{n}", self.location(at)),
            }
        })
    }

    /// The text of an event in a report.
    pub(crate) fn say(&self, trace: &Trace, e: &Event) -> Option<String> {
        let unit = |new: u32, len: u8| number(&new.to_le_bytes()[..len as usize]);
        Some(match *e {
            Event::Store { at, len, new, .. } => {
                format!("{} = {}", self.location(at), unit(new, len))
            }
            Event::Touched { at, len, new, .. } => {
                format!("{} = {} (on loan)", self.location(at), unit(new, len))
            }
            Event::Program {
                at, len, side, how, ..
            } => {
                let new = trace.old_new(side, len).1;
                match how {
                    how if how.is_erase() => {
                        format!("erase of {len} bytes at {}", self.location(at))
                    }
                    _ => format!("{} = {}", self.location(at), number(new)),
                }
            }
            Event::Fence { .. } => "fence".into(),
            Event::EndLoan { at, .. } => format!("end of the loan of {}", self.location(at)),
            Event::Lend { at, .. } => format!("loan of {}", self.location(at)),
            Event::Read { at, .. } => format!("read of {}", self.location(at)),
            Event::Scratch { at, .. } => format!("{} becomes scratch", self.location(at)),
            Event::World(_) => "change of the world".into(),
            Event::Stable { .. } | Event::Unstable { .. } | Event::Erased { .. } => return None,
        })
    }
}
