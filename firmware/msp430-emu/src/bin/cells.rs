//! `cells PATH ASKED …`: runs an image from a blank memory for each number, which its first cell
//! has, twice, and prints a line for each boot: the number, and what the cells hold then.

use msp430_emu::{Board, Ended, Image};
use std::process::ExitCode;

type Error = Box<dyn std::error::Error>;

/// A boot that takes more instructions than this hangs.
const HANGS: u64 = 50_000_000;
/// How many cells are printed.
const CELLS: u16 = 8;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let image = Image::parse(&std::fs::read(args.next().ok_or("no image")?)?)?;
    for asked in args {
        let number: u16 = asked.parse()?;
        let mut board = Board::new(&image);
        board.blank();
        board.write_cell(0, number);
        for boot in 0..2 {
            board.power_on(boot);
            let ended = board.run(HANGS);
            if !matches!(ended, Ended::Status(_)) {
                return Err(format!("{asked}: {}", board.failure(ended, &image)).into());
            }
            let cells: Vec<_> = (0..CELLS).map(|c| board.read_cell(c).to_string()).collect();
            println!("{asked} {}", cells.join(" "));
        }
    }
    Ok(())
}
