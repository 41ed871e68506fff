//! How many lines of a program are there only because the power may fail: what a port of a program
//! that keeps all in RAM adds or changes.
//!
//! The programs have no second source without protection, so lines are counted by a rule, not by a
//! difference. Neither comments nor empty lines count, and one line counts once:
//!
//! - a step or a loop: the line that opens it, the one that closes it, and an `Ok(())` before that;
//! - a persistent type: a derive of `Persist`, and its `#[repr(C)]`;
//! - what the system says of its memory: `table`, `pool`, the data that a thread begins with;
//! - a pointer to an object, its allocation and its release: `PBox`, `Ptr`, `free`, `into_inner`;
//! - an access to data that is logged or read in a step: `slot`, `fields`, `get_mut`, `at_mut`,
//!   `get` with the step, `follow`, `data` of a mutex;
//! - the end of a step with an error of the program: `abort`.
//!
//! A program for RAM has loops, variables and tests there, too, so nearly all of these lines are
//! changed ones, and a few are new.

/// What makes a line count by itself.
const MARKS: [&str; 24] = [
    "Persist",
    "#[repr(C)]",
    "table {",
    "pool {",
    "PBox",
    "Ptr<",
    "Ptr::",
    ".free(sys)",
    ".into_inner(",
    ".slot(",
    ".fields(",
    ".into_fields(",
    ".get(sys)",
    ".get(tx)",
    ".get_mut(",
    ".at_mut(",
    ".into_at(",
    ".into_mut(",
    ".follow(",
    ".into_follow(",
    ".data()",
    ".abort(",
    "tx: &Tx<",
    "&mut Root<",
];

/// The calls that open a step or a loop.
const CALLS: [&str; 5] = [
    ".step(",
    ".each_step(",
    ".each(",
    ".forever_step(",
    ".forever(",
];

/// Lines of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lines {
    /// All but comments and empty ones.
    pub all: usize,
    /// Those of a port.
    pub port: usize,
}

/// Counts the lines of a source.
pub fn count(source: &str) -> Lines {
    let lines: Vec<&str> = source.lines().map(code).collect();
    let mut counts: Vec<bool> = lines.iter().map(|l| by_itself(l)).collect();
    for (i, line) in lines.iter().enumerate() {
        let opens = CALLS
            .iter()
            .filter_map(|c| line.find(c).map(|at| at + c.len()));
        for from in opens {
            counts[i] = true;
            let end = close(&lines, i, from);
            counts[end] = true;
            if end > i && lines[end - 1] == "Ok(())" {
                counts[end - 1] = true;
            }
        }
    }
    Lines {
        all: lines.iter().filter(|l| !l.is_empty()).count(),
        port: counts.into_iter().filter(|c| *c).count(),
    }
}

/// A line without its comment and its indentation.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default().trim()
}

fn by_itself(line: &str) -> bool {
    MARKS.iter().any(|m| line.contains(m)) || is_thread(line)
}

/// Whether it says with which data a thread begins, and its priority: `name(Type = data): 1;`.
fn is_thread(line: &str) -> bool {
    let Some((thread, priority)) = line.rsplit_once("): ") else {
        return false;
    };
    let number = priority.strip_suffix(';');
    thread.contains(" = ") && number.is_some_and(|n| n.parse::<u8>().is_ok())
}

/// The line with the parenthesis that closes the one before `from` in line `i`; the last line, if
/// there is none.
fn close(lines: &[&str], i: usize, from: usize) -> usize {
    let mut depth = 1;
    for (k, line) in lines.iter().enumerate().skip(i) {
        let text = if k == i { &line[from..] } else { line };
        for c in text.chars() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return k;
            }
        }
    }
    lines.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker of `mq` as it is where the power stays.
    const VOLATILE: &str = "
        /// Keeps the last samples.
        fn average(q: &Queue<[u32; 2]>) -> u32 {
            let mut last = [0; 10]; // the window
            for i in 0..150 {
                let [n, sample] = q.receive();
                last[n as usize % 10] = sample;
            }
            last.iter().sum()
        }
    ";

    #[test]
    fn a_program_for_ram_has_no_line_of_a_port() {
        assert_eq!(count(VOLATILE), Lines { all: 8, port: 0 });
    }

    #[test]
    fn steps_count_where_they_open_and_where_they_close() {
        let source = "
            system! {
                table { bytes: 64 }            // 1
                objects { Q: Queue<u32, 8>; }
                threads {
                    average([u32; 10] = [0; 10]): 2;  // 2
                }
            }
            fn average(th: &mut Thread) -> Result<(), Error> {
                th.each(0..9, (), |th, i, ()| {      // 3
                    let n = th.step(i, |sys, last, i| Q.receive(sys))?; // 4
                    th.step(n, |sys, last, n| {      // 5
                        let n = n + 1;
                        *last.slot(sys).at_mut(0)? = n; // 6
                        Ok(())                       // 7
                    })?;                             // 8
                    Ok(())                           // 9
                })?;                                 // 10
                Ok(())
            }
        ";
        assert_eq!(count(source), Lines { all: 19, port: 10 });
    }

    #[test]
    fn a_call_is_followed_to_its_own_end() {
        let lines = ["a.step((1, 2), |x| {", "f(x)", "})?;", "g()"];
        assert_eq!(close(&lines, 0, "a.step(".len()), 2);
        assert_eq!(close(&["a.step(b)"], 0, "a.step(".len()), 0);
        assert!(is_thread("maximum(Window = EMPTY): 2;"));
        assert!(!is_thread("fn maximum(n: u32): 2;") && !is_thread("Q: Queue<u32, 8>;"));
    }
}
