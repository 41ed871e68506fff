//! How much of a program's code a crate's source makes, also where its functions are inlined.

use anyhow::{Context, Result, anyhow};
use object::{Object, ObjectSymbol, SymbolKind};
use std::collections::BTreeMap;
use std::path::Path;

/// Where the project's own sources are.
const SOURCES: &str = "/crates/";

/// Bytes of code of a program with line tables whose innermost line in the project's crates is in
/// `folder`. What a crate calls in the core library counts as its own; what it calls in another
/// crate of the project does not.
pub fn code(program: &Path, folder: &str) -> Result<u64> {
    let elf = std::fs::read(program).with_context(|| program.display().to_string())?;
    let file = object::File::parse(&*elf)?;
    let loader = addr2line::Loader::new(program).map_err(|e| anyhow!("line tables: {e}"))?;
    let text = file.symbols().filter(|s| s.kind() == SymbolKind::Text);
    // Of several names for one function one counts. The lowest bit says Thumb.
    let functions: BTreeMap<_, _> = text.map(|s| (s.address() & !1, s.size())).collect();
    let mut bytes = 0;
    for (start, size) in functions {
        for at in (start..start + size).step_by(2) {
            let mut frames = loader.find_frames(at).map_err(|e| anyhow!("frames: {e}"))?;
            while let Some(f) = frames.next().map_err(|e| anyhow!("frames: {e}"))? {
                let Some(path) = f.location.and_then(|l| l.file) else {
                    continue;
                };
                if path.contains(SOURCES) {
                    bytes += if path.contains(folder) { 2 } else { 0 };
                    break;
                }
            }
        }
    }
    Ok(bytes)
}
