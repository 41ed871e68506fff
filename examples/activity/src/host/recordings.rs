//! Reads recordings from CSV: `series,label,t,ax,ay,az,gx,gy,gz`, the columns in any order.

use example_activity::{AXES, CLASSES, Class, Sample, WINDOW};
use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// The columns of a file; all are required, and no others are allowed.
const COLUMNS: [&str; 3 + AXES] = ["series", "label", "t", "ax", "ay", "az", "gx", "gy", "gz"];

/// The names of the activities, in the order of their first appearance.
#[derive(Debug, Default, Clone)]
pub struct Labels(pub Vec<String>);

/// A recording of one activity.
#[derive(Debug, Clone)]
pub struct Recording {
    /// Its series number in the file.
    pub series: u32,
    /// The activity.
    pub class: Class,
    /// The readings.
    pub samples: Vec<Sample>,
}

impl Recording {
    /// The complete windows, one after the other.
    pub fn windows(&self) -> &[[Sample; WINDOW]] {
        self.samples.as_chunks::<WINDOW>().0
    }
}

/// An error in a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The line, from 1.
    pub line: usize,
    /// The message.
    pub message: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}
impl std::error::Error for Malformed {}

impl Labels {
    fn class(&mut self, label: &str) -> Result<Class, String> {
        if label.is_empty() {
            return Err("the label is empty".into());
        }
        let known = self.0.iter().position(|l| l == label);
        let class = known.unwrap_or(self.0.len());
        if class == CLASSES {
            return Err(format!(
                "`{label}` exceeds the maximum of {CLASSES} activities"
            ));
        }
        if known.is_none() {
            self.0.push(label.into());
        }
        Ok(class as Class)
    }
}

/// Parses a file. Adds new activities to `labels`, which is unchanged after an error.
pub fn parse(file: &[u8], labels: &mut Labels) -> Result<Vec<Recording>, Malformed> {
    let mut all = labels.clone();
    let recordings = Reader::default().read(file, &mut all)?;
    *labels = all;
    Ok(recordings)
}

#[derive(Default)]
struct Reader {
    recordings: Vec<Recording>,
    /// The `t` of the last row, and its line.
    last: (u32, usize),
}

impl Reader {
    fn read(mut self, file: &[u8], labels: &mut Labels) -> Result<Vec<Recording>, Malformed> {
        let mut columns = None;
        let file = file.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(file);
        let mut line = 0;
        for bytes in file.split(|b| *b == b'\n') {
            line += 1;
            let at = |message| Malformed { line, message };
            let text = std::str::from_utf8(bytes).map_err(|_| at("not UTF-8".into()))?;
            if text.trim().is_empty() {
                continue;
            }
            let fields: Vec<_> = text.split(',').map(plain).collect();
            match &columns {
                None => columns = Some(header(&fields).map_err(at)?),
                Some(order) => self.row(&fields, order, line, labels).map_err(at)?,
            }
        }
        let end = |message: &str| Malformed {
            line,
            message: message.into(),
        };
        self.long_enough().map_err(|message| Malformed {
            line: self.last.1,
            message,
        })?;
        match (columns, self.recordings.is_empty()) {
            (None, _) => Err(end("the file is empty")),
            (_, true) => Err(end("the file has no recordings")),
            _ => Ok(self.recordings),
        }
    }

    fn row(
        &mut self,
        fields: &[&str],
        order: &[usize; COLUMNS.len()],
        line: usize,
        labels: &mut Labels,
    ) -> Result<(), String> {
        if fields.len() != COLUMNS.len() {
            return Err(format!(
                "{} fields instead of {}",
                fields.len(),
                COLUMNS.len()
            ));
        }
        let field = |c: usize| fields[order[c]];
        let series = number(COLUMNS[0], field(0))?;
        let class = labels.class(field(1))?;
        let t: u32 = number(COLUMNS[2], field(2))?;
        let mut sample = [0; AXES];
        for (i, v) in sample.iter_mut().enumerate() {
            *v = number(COLUMNS[3 + i], field(3 + i))?;
        }
        let (last_t, last_line) = self.last;
        match self.recordings.last_mut() {
            Some(r) if r.series == series => {
                if r.class != class {
                    let was = &labels.0[usize::from(r.class)];
                    return Err(format!(
                        "recording {series} was `{was}` and is `{}`",
                        field(1)
                    ));
                }
                if last_t.checked_add(1) != Some(t) {
                    return Err(format!(
                        "t is {t} after {last_t} on line {last_line}: a sample is missing or out of order"
                    ));
                }
                r.samples.push(sample);
            }
            _ => {
                self.long_enough()
                    .map_err(|message| format!("{message}, and ends before this line"))?;
                if self.recordings.iter().any(|r| r.series == series) {
                    return Err(format!(
                        "recording {series} continues here after another one"
                    ));
                }
                self.recordings.push(Recording {
                    series,
                    class,
                    samples: vec![sample],
                });
            }
        }
        self.last = (t, line);
        Ok(())
    }

    fn long_enough(&self) -> Result<(), String> {
        match self.recordings.last() {
            Some(r) if r.samples.len() < WINDOW => Err(format!(
                "recording {} has {} samples, fewer than the {WINDOW} of a window",
                r.series,
                r.samples.len()
            )),
            _ => Ok(()),
        }
    }
}

/// A field without surrounding spaces and quotation marks.
fn plain(field: &str) -> &str {
    let field = field.trim();
    let inner = field.strip_prefix('"').and_then(|f| f.strip_suffix('"'));
    inner.unwrap_or(field)
}

/// The position of each column.
fn header(fields: &[&str]) -> Result<[usize; COLUMNS.len()], String> {
    let mut order = [0; COLUMNS.len()];
    for (i, name) in COLUMNS.iter().enumerate() {
        let found = fields.iter().position(|f| f == name);
        order[i] = found.ok_or_else(|| format!("no column `{name}`"))?;
    }
    let extra = fields.iter().enumerate().find(|(i, _)| !order.contains(i));
    match extra {
        Some((_, name)) => Err(format!(
            "unknown column `{name}`; the columns are {COLUMNS:?}"
        )),
        None => Ok(order),
    }
}

fn number<T: FromStr<Err = ParseIntError>>(column: &str, field: &str) -> Result<T, String> {
    let not_an_integer = |e| format!("{column} is `{field}`, not a 32-bit integer ({e})");
    field.parse().map_err(not_an_integer)
}
