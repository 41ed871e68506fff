//! `cargo xtask inspect FILE`.

use anyhow::{Context, Result};
use std::path::PathBuf;

/// Prints what an image of a medium holds. The file is only read.
#[derive(clap::Args)]
pub struct Args {
    /// A dump of a medium, from its first byte
    file: PathBuf,
}

pub fn run(a: Args) -> Result<()> {
    let bytes = std::fs::read(&a.file).with_context(|| a.file.display().to_string())?;
    print!("{}", report(&bytes));
    Ok(())
}

/// What any image shows: its size and its erased tail.
fn report(bytes: &[u8]) -> String {
    let mut out = format!("{} bytes\n", bytes.len());
    if let Some(&last) = bytes.last() {
        let blank = bytes.iter().rev().take_while(|b| **b == last).count();
        out += &format!("the last {blank} are {last:#04x}\n");
    }
    out
}
