//! Our core against the simulator of mspdebug: the same program stepped in both, all registers
//! compared after each instruction and the memory at the end.
//!
//! Ours runs first, and writes down what the other one shall do: a script of commands and what the
//! registers must be after each. So one process steps a whole program, and nothing waits for an
//! answer.

mod deviation;
mod program;
mod session;
mod simulator;

pub use deviation::{DEVIATIONS, Deviation};
pub use simulator::installed;

use crate::cpu::Cpu;
use crate::decode::Instruction;
use crate::image::Image;
use session::Session;
use std::fmt;

/// What was compared.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Instructions after which all registers were compared.
    pub instructions: u64,
    /// How often each known deviation of the simulator was met, in the order of [`DEVIATIONS`].
    pub deviations: [u64; DEVIATIONS.len()],
}

impl Report {
    /// Both together.
    pub fn add(&mut self, other: &Report) {
        self.instructions += other.instructions;
        for (mine, more) in self.deviations.iter_mut().zip(other.deviations) {
            *mine += more;
        }
    }
}

/// Why a comparison failed.
#[derive(Debug)]
pub enum Failure {
    /// The two differ; the text says where.
    Differs(String),
    /// mspdebug could not be run, or said something else than expected.
    Simulator(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Differs(s) => write!(f, "the cores differ: {s}"),
            Failure::Simulator(s) => write!(f, "mspdebug: {s}"),
        }
    }
}

impl std::error::Error for Failure {}

/// A bug that a test plants in our core: called after each of its instructions.
pub type Plant = fn(&mut Cpu, Instruction);

/// A random program of so many instructions.
///
/// **Errors**: the cores differ, or the simulator cannot be run.
pub fn random(seed: u64, instructions: u64, plant: Option<Plant>) -> Result<Report, Failure> {
    let name = format!("seed {seed}");
    let session = program::write(Session::new(plant), seed, instructions);
    session.finish(&name, &Image::default())
}

/// A program as it stands in the memory of `cpu`, from its PC to the end or for so many
/// instructions.
///
/// The simulator has no peripherals and no timer, so neither may `cpu` have.
///
/// **Errors**: the cores differ, or the simulator cannot be run.
pub fn image(
    name: &str,
    cpu: Cpu,
    image: &Image,
    instructions: u64,
    plant: Option<Plant>,
) -> Result<Report, Failure> {
    let mut session = Session::new(plant);
    session.cpu = cpu;
    session.start();
    while session.counts.instructions < instructions && session.step() {}
    session.finish(name, image)
}
