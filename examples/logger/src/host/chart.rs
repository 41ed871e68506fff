//! A chart for a terminal: for each column the range and the mean of some days.

const ROWS: usize = 18;
const COLUMNS: usize = 73;

/// Draws hourly values.
pub fn draw(values: &[i16]) -> String {
    let width = values.len().div_ceil(COLUMNS).max(1);
    let columns: Vec<_> = values.chunks(width).map(Column::of).collect();
    let low = columns.iter().map(|c| c.low).fold(f64::MAX, f64::min);
    let high = columns.iter().map(|c| c.high).fold(f64::MIN, f64::max);
    let step = ((high - low) / (ROWS - 1) as f64).max(0.1);
    let mut out = String::new();
    for row in (0..ROWS).rev() {
        let (from, to) = (
            low + step * (row as f64 - 0.5),
            low + step * (row as f64 + 0.5),
        );
        let label = (row % 4 == 1).then(|| format!("{:6.1} ┤", low + step * row as f64));
        out += label.as_deref().unwrap_or("       │");
        for c in &columns {
            out.push(match c {
                c if (from..to).contains(&c.mean) => '●',
                c if c.high >= from && c.low < to => '│',
                _ => ' ',
            });
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out += &format!("       └{}\n", "─".repeat(columns.len()));
    let days = width as f64 / 24.0;
    out + &format!("        °F; a column is {days:.0} days: their range, and ● their mean\n")
}

struct Column {
    low: f64,
    high: f64,
    mean: f64,
}

impl Column {
    fn of(values: &[i16]) -> Self {
        let degrees = || values.iter().map(|v| f64::from(*v) / 10.0);
        Column {
            low: degrees().fold(f64::MAX, f64::min),
            high: degrees().fold(f64::MIN, f64::max),
            mean: degrees().sum::<f64>() / values.len() as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_has_its_range_and_its_mean() {
        let rising: Vec<i16> = (0..730).collect();
        let chart = draw(&rising);
        assert_eq!(chart.matches('●').count(), COLUMNS + 1, "and in the legend");
        let lines: Vec<_> = chart.lines().collect();
        assert_eq!(lines.len(), ROWS + 2);
        let column = |l: &str| l.chars().position(|c| c == '●');
        assert!(column(lines[0]) > column(lines[ROWS - 1]), "{chart}");
        assert!(draw(&[5]).contains('●'));
    }
}
