//! Where in the program an event comes from: the lines of the report that name a file.
//!
//! ```text
//!  powerfail, nvmem      the report of a store            passed
//!  the program           src/settings.rs:41  save         told: the innermost frames
//!                        tests/crash.rs:12   boot         told: the outermost one
//!  powerfail             the engine                       the end
//! ```
//!
//! Only frames with a file are told, so a build without debug information tells nothing.

use std::backtrace::Backtrace;

/// A frame of the stack, as [`Backtrace`] prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame<'t> {
    function: &'t str,
    /// Where it is, and the line.
    file: Option<&'t str>,
}

/// Whose a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Engine,
    /// It only leads from the program to the engine, or has no file.
    Between,
    Program,
}

impl Frame<'_> {
    /// Its file says that: optimised code may have no paths of functions.
    fn whose(&self) -> Whose {
        let Some(file) = self.file else {
            return Whose::Between;
        };
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/src/");
        let is_own = match file.strip_prefix("./") {
            Some(file) => std::env::current_dir().is_ok_and(|dir| dir.join(file).starts_with(own)),
            None => file.starts_with(own),
        };
        let of_crate = |name: &str| {
            file.split_once("/src/").is_some_and(|(dir, _)| {
                let dir = dir.rsplit('/').next().unwrap_or_default();
                let version = dir.strip_prefix(name);
                version.is_some_and(|v| v.is_empty() || v.starts_with("-"))
            })
        };
        if is_own {
            Whose::Engine
        } else if file.contains("/library/") || of_crate("nvmem") {
            Whose::Between
        } else {
            Whose::Program
        }
    }
}

/// The innermost frames of the program that are told, beside the outermost one.
const INNERMOST: usize = 3;

/// The lines of the program that have led to this call, the innermost first.
#[cold]
pub(crate) fn here() -> Vec<String> {
    told(&Backtrace::force_capture().to_string())
}

fn told(stack: &str) -> Vec<String> {
    let frames = frames(stack).into_iter();
    let program = frames.skip_while(|f| f.whose() != Whose::Program);
    let program = program.take_while(|f| f.whose() != Whose::Engine);
    let mut told: Vec<String> = program
        .filter(|f| f.whose() == Whose::Program)
        .filter_map(|f| Some(format!("{}  {}", f.file?, f.function)))
        .collect();
    if let Some(outermost) = told.pop() {
        told.truncate(INNERMOST);
        told.push(outermost);
    }
    told
}

/// `  4: function` and, where it is known, a line `at file:line:column`.
fn frames(stack: &str) -> Vec<Frame<'_>> {
    let mut frames: Vec<Frame<'_>> = Vec::new();
    for line in stack.lines().map(str::trim) {
        let function = line.split_once(": ");
        if let Some(file) = line.strip_prefix("at ") {
            let column = file.rfind(':').unwrap_or(file.len());
            if let Some(frame) = frames.last_mut() {
                frame.file = file.get(..column);
            }
        } else if let Some((number, function)) = function
            && number.bytes().all(|b| b.is_ascii_digit())
        {
            let file = None;
            frames.push(Frame { function, file });
        }
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_between_two_parts_of_the_engine() {
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        let stack = format!(
            "   0: powerfail::source::here
             at {own}/source.rs:40:5
   1: <powerfail::observe::Recorder as nvmem::instrument::Observer>::store
             at {own}/observe.rs:58:9
   2: store
             at /cargo/nvmem-0.1.0/src/mapped.rs:20:1
   3: pool::journal::append
             at /cargo/pool/src/journal.rs:7:13
   4: commit
             at /cargo/pool/src/tx.rs:8:13
   5: app::settings::Settings::save::{{{{closure}}}}
             at ./tests/settings.rs:41:9
   6: core::ops::function::FnOnce::call_once
             at /rustc/library/core/src/ops/function.rs:250:5
   7: app::without_a_file
   8: app::inner
             at ./tests/main.rs:3:1
   9: <crash::Test as core::ops::Fn>::call
             at ./tests/crash.rs:12:5
  10: powerfail::engine::boot
             at {own}/engine.rs:1:1
  11: crash::main
             at ./tests/crash.rs:1:1"
        );
        let expected = [
            "/cargo/pool/src/journal.rs:7  pool::journal::append",
            "/cargo/pool/src/tx.rs:8  commit",
            "./tests/settings.rs:41  app::settings::Settings::save::{{closure}}",
            "./tests/crash.rs:12  <crash::Test as core::ops::Fn>::call",
        ];
        assert_eq!(told(&stack), expected);
        assert!(told("   0: app::main\n   1: std::rt::lang_start").is_empty());
        assert!(told("disabled backtrace").is_empty());
    }
}
