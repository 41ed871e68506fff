//! `serial [--kills N] [--seed N] [--until LINE] PATH`: runs the image of a board, and prints what
//! it sends to its serial port. The power goes off N times after pseudo-random numbers of
//! instructions, and on again with garbage in RAM and registers. The last boot goes on until it has
//! sent a line that begins so.

use msp430_emu::{Board, Image, Observer, Random, Stop, Store};
use std::io::Write;
use std::ops::ControlFlow;
use std::process::ExitCode;

type Error = Box<dyn std::error::Error>;

/// The registers of eUSCI_A0: what is sent, and the flags, of which TXIFG says that it may be.
const UCA0TXBUF: u16 = 0x05CE;
const UCA0IFG: u16 = 0x05DC;
const TXIFG: u16 = 2;
/// A boot is killed after at most so many instructions.
const LATEST: u64 = 1_000_000;
/// A last boot that takes more instructions than this hangs.
const HANGS: u64 = 500_000_000;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

/// What was sent.
#[derive(Default)]
struct Serial {
    all: Vec<u8>,
    /// Where the line begins that is being sent.
    line: usize,
    until: Option<Vec<u8>>,
}

impl Observer for Serial {
    fn store(&mut self, s: &Store) -> ControlFlow<()> {
        if s.address != UCA0TXBUF {
            return ControlFlow::Continue(());
        }
        self.all.push(s.new as u8);
        if s.new as u8 != b'\n' {
            return ControlFlow::Continue(());
        }
        let line = self.all.get(self.line..).unwrap_or_default();
        let is_last = self.until.as_ref().is_some_and(|u| line.starts_with(u));
        self.line = self.all.len();
        if is_last {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

fn run() -> Result<(), Error> {
    let (mut kills, mut seed, mut until, mut path) = (0, 1, None, None);
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        let mut value = || args.next().ok_or(format!("{a}: a value is missing"));
        match a.as_str() {
            "--kills" => kills = value()?.parse()?,
            "--seed" => seed = value()?.parse()?,
            "--until" => until = Some(value()?.into_bytes()),
            _ => path = Some(a),
        }
    }
    let path = path.ok_or("no image")?;
    let image = Image::parse(&std::fs::read(path)?)?;
    let mut board = Board::new(&image);
    board.blank();
    let mut rng = Random::new(seed);
    let mut serial = Serial::default();
    for boot in 0..=kills {
        let is_last = boot == kills;
        board.power_on(rng.next_u64());
        board.cpu.set_word(UCA0IFG, TXIFG);
        serial.line = serial.all.len();
        let limit = if is_last {
            HANGS
        } else {
            1 + rng.below(LATEST)
        };
        if is_last {
            serial.until = until.take();
        }
        match board.cpu.run(limit, &mut serial) {
            Stop::Limit if !is_last => serial.all.extend(b"\r\n"),
            Stop::Observer if is_last => {}
            ended => {
                std::io::stdout().write_all(&serial.all)?;
                return Err(format!("boot {}: {ended:?}", boot + 1).into());
            }
        }
    }
    std::io::stdout().write_all(&serial.all)?;
    Ok(())
}
