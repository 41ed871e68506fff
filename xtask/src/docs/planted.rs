//! `planted!` in the sources of crates: a planted bug is one condition on one line.
//!
//! The shipped code must read as if the bug were not there. So the macro ends the condition of an
//! `if`, a `match` or a guard, or the value of a `let`, and the whole condition fits on its line:
//!
//! ```text
//! if !planted!("nvmem/a") {                      the whole condition
//! let known = erased || planted!("nvmem/b");     the last term of one
//! Some(n) if n > 0 && planted!("nvmem/c") => {   a guard
//! ```

const MACRO: &str = "planted!(";

/// The lines on which `planted!` is not the end of a condition of that line, and what is wrong.
pub fn misplaced(text: &str) -> Vec<(usize, &'static str)> {
    let code: Vec<_> = text
        .lines()
        .map(str::trim)
        .enumerate()
        .filter(|(_, l)| !l.is_empty() && !l.starts_with("//"))
        .collect();
    let mut wrong = Vec::new();
    for (i, (line, said)) in code.iter().enumerate() {
        // The macro's own definition and the documents of it name no bug.
        if !said.contains("planted!(\"") {
            continue;
        }
        let before = i.checked_sub(1).map_or("", |i| code[i].1);
        let after = code.get(i + 1).map_or("", |c| c.1);
        if let Err(what) = judge(before, said, after) {
            wrong.push((line + 1, what));
        }
    }
    wrong
}

/// Judges the line `said` between its neighbours.
fn judge(before: &str, said: &str, after: &str) -> Result<(), &'static str> {
    let begins = before.is_empty() || before.ends_with("=>");
    if !begins && !before.ends_with(['{', '}', ';', ',', ']']) {
        return Err("`planted!` in a condition of several lines: give the rest a name");
    }
    let Some((condition, rest)) = said.split_once(MACRO) else {
        return Err("`planted!` without a name");
    };
    if rest.contains(MACRO) {
        return Err("two `planted!` in one condition");
    }
    let condition = condition.trim_end_matches("nvmem::");
    let condition = condition.trim_end_matches("crate::");
    let condition = condition.strip_suffix('!').unwrap_or(condition);
    let open = |c: char| condition.matches(c).count();
    let last_term = ["&& ", "|| ", "= ", "if ", "match ", "while ", "return "]
        .iter()
        .any(|w| condition.ends_with(w));
    if open('(') != open(')') || !(last_term || condition.is_empty()) {
        return Err("`planted!` in the middle of an expression: make it a condition of its own");
    }
    let end = rest.split_once("\")").map_or("", |(_, end)| end);
    let is_result = end.is_empty() && after.starts_with('}');
    let ends = is_result || [" {", ";", " =>"].iter().any(|e| end.starts_with(e));
    if !ends {
        return Err("`planted!` is not the last term of its condition");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_on_one_line_is_accepted() {
        for line in [
            "if planted!(\"a/b\") {",
            "} else if x != 0 && !nvmem::planted!(\"a/b\") {",
            "let y = if planted!(\"a/b\") { 1 } else { 2 };",
            "let y = x(1) || planted!(\"a/b\");",
            "self.y = !crate::planted!(\"a/b\");",
            "Some(x) if x > 0 && planted!(\"a/b\") => {",
            "x != 0 && !planted!(\"a/b\")",
        ] {
            let text = format!("fn f() {{\n    {line}\n}}\n");
            assert_eq!(misplaced(&text), [], "{line}");
        }
        assert_eq!(misplaced("/// `planted!(\"a/b\") + 1`\nfn f() {\n}\n"), []);
    }

    #[test]
    fn a_part_of_an_expression_is_refused() {
        for lines in [
            "let n = m + planted!(\"a/b\") as u32;",
            "let n = u32::from(!planted!(\"a/b\"));",
            "(x || planted!(\"a/b\")).then_some(1)",
            "if planted!(\"a/b\") && x {",
            "if planted!(\"a/b\") || planted!(\"a/c\") {",
            "sound: x && !planted!(\"a/b\"),",
            "x\n        && !planted!(\"a/b\")",
            "let y =\n        x && !planted!(\"a/b\");",
        ] {
            let text = format!("fn f() {{\n    {lines}\n}}\n");
            assert_eq!(misplaced(&text).len(), 1, "{lines}");
        }
    }
}
