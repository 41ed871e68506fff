//! Reads what callgrind wrote: how many instructions a measurement took, and how many of them in
//! functions that are left out.

use anyhow::{Context, Result};

/// What copies and checks bytes in the place of hardware that would do it, or that any keeper of
/// data would have to do. A call of one of these is left out of `.ir` with all that it calls.
pub const LEFT_OUT: [&str; 4] = [
    "::medium_read",
    "::medium_write",
    "vnv_heap::store::check::weigh",
    "vnv_heap::store::check::reduce",
];

fn is_left_out(function: &str) -> bool {
    LEFT_OUT.iter().any(|f| function.ends_with(f))
}

/// Instructions of one measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counted {
    pub total: f64,
    pub without: f64,
}

/// The counts in a file that was written with names and positions in full.
pub fn counted(file: &str) -> Result<Counted> {
    let total: f64 = file
        .lines()
        .find_map(|l| l.strip_prefix("totals:"))
        .and_then(|n| n.trim().parse().ok())
        .context("a file of callgrind without a total")?;
    let (mut function, mut callee) = ("", "");
    let mut inclusive = false;
    let mut out = 0.0;
    for line in file.lines() {
        if let Some(f) = line.strip_prefix("fn=") {
            function = f;
        } else if let Some(f) = line.strip_prefix("cfn=") {
            callee = f;
        } else if line.starts_with("calls=") {
            inclusive = true;
        } else if inclusive {
            inclusive = false;
            if is_left_out(callee) && !is_left_out(function) {
                let cost = line.rsplit(' ').next().and_then(|n| n.parse::<f64>().ok());
                out += cost.with_context(|| format!("not a cost: {line}"))?;
            }
        }
    }
    Ok(Counted {
        total,
        without: total - out,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_what_is_left_out_are_taken_off_with_all_that_they_call() {
        let file = "fn=a::measured\n7 10\ncfn=x::medium_read\ncalls=2 65\n43 133\ncfn=x::other\ncalls=1 1\n44 20\n\n\
                    fn=x::medium_read\n65 9\ncfn=memcpy\ncalls=1 2\n66 124\n\nfn=x::other\n1 20\n\nfn=memcpy\n2 124\n\ntotals: 287\n";
        let c = counted(file).unwrap();
        assert_eq!((c.total, c.without), (287.0, 154.0));
        assert!(counted("fn=a\n1 2\n").is_err());
    }
}
