//! Reads a recording from CSV: `hour,tenths_f`, the columns in any order.

use std::fmt;

const COLUMNS: [&str; 2] = ["hour", "tenths_f"];

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

/// Parses a file of at most `most` values: one for each hour, from hour 0.
///
/// **Errors**: any other content, with the line number.
pub fn parse(file: &[u8], most: usize) -> Result<Vec<i16>, Malformed> {
    let file = file.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(file);
    let mut order = None;
    let mut values = Vec::new();
    let mut line = 0;
    for bytes in file.split(|b| *b == b'\n') {
        line += 1;
        let at = |message| Malformed { line, message };
        let text = std::str::from_utf8(bytes).map_err(|_| at("not UTF-8".into()))?;
        if text.trim().is_empty() {
            continue;
        }
        let fields: Vec<_> = text.split(',').map(plain).collect();
        match order {
            None => order = Some(header(&fields).map_err(at)?),
            Some(o) => values.push(row(&fields, o, values.len()).map_err(at)?),
        }
        if values.len() > most {
            return Err(at(format!("more than the maximum of {most} values")));
        }
    }
    let end = |message: &str| Malformed {
        line,
        message: message.into(),
    };
    match (order, values.is_empty()) {
        (None, _) => Err(end("the file is empty")),
        (_, true) => Err(end("the file has no values")),
        _ => Ok(values),
    }
}

/// A field without surrounding spaces and quotation marks.
fn plain(field: &str) -> &str {
    let field = field.trim();
    let inner = field.strip_prefix('"').and_then(|f| f.strip_suffix('"'));
    inner.unwrap_or(field)
}

/// The position of each column.
fn header(fields: &[&str]) -> Result<[usize; 2], String> {
    let find = |name| {
        let found = fields.iter().position(|f| *f == name);
        found.ok_or_else(|| format!("no column `{name}`"))
    };
    let order = [find(COLUMNS[0])?, find(COLUMNS[1])?];
    match fields.len() {
        2 => Ok(order),
        n => Err(format!("{n} columns instead of `{}`", COLUMNS.join(","))),
    }
}

fn row(fields: &[&str], order: [usize; 2], hours: usize) -> Result<i16, String> {
    if fields.len() != 2 {
        return Err(format!("{} fields instead of 2", fields.len()));
    }
    let (hour, value) = (fields[order[0]], fields[order[1]]);
    if hour.parse() != Ok(hours) {
        return Err(format!("hour is `{hour}` instead of {hours}"));
    }
    value
        .parse()
        .map_err(|e| format!("tenths_f is `{value}`, not a 16-bit integer ({e})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(file: &str, line: usize, says: &str) {
        let e = parse(file.as_bytes(), 3).unwrap_err();
        assert_eq!((e.line, e.message.contains(says)), (line, true), "{e}");
    }

    #[test]
    fn well_formed() {
        let values = |file: &str| parse(file.as_bytes(), 3).unwrap();
        assert_eq!(values("hour,tenths_f\n0,394\n1,-5\n\n2,0\n"), [394, -5, 0]);
        assert_eq!(values("\u{feff}\"tenths_f\",hour\r\n7, 0\r\n"), [7]);
    }

    #[test]
    fn malformed() {
        refused("", 1, "empty");
        refused("hour,tenths_f\n", 2, "no values");
        refused("hour,tenths_c\n0,1\n", 1, "no column `tenths_f`");
        refused("hour,tenths_f,x\n0,1,2\n", 1, "3 columns");
        refused("hour,tenths_f\n0,1\n2,1\n", 3, "`2` instead of 1");
        refused("hour,tenths_f\n0,1\n\n1,3.5\n", 4, "tenths_f is `3.5`");
        refused("hour,tenths_f\n0,40000\n", 2, "16-bit");
        refused("hour,tenths_f\n0\n", 2, "1 fields");
        refused("hour,tenths_f\n0,1\n1,1\n2,1\n3,1\n", 5, "maximum of 3");
        let e = parse(b"hour,tenths_f\n0,\xFF\n", 3).unwrap_err();
        assert_eq!((e.line, e.message.as_str()), (2, "not UTF-8"));
    }
}
