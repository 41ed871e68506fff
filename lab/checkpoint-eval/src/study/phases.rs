//! A program whose phases change: it allocates much, then updates little, then is quiet.

use crate::flash::{M0, M3, Part, Spi};
use crate::grids::mixed;
use crate::program::{Program, STATICS};
use crate::run::{Layout, Mode, Scenario, steady};
use crate::say::{Figures, Series, best, phys};

/// Bytes of a piece of the heap that is allocated or not.
const PIECE: usize = 256;
/// Checkpoints of a phase.
const PHASE: u32 = 20;
/// Each phase twice.
const ROUNDS: u32 = 6 * PHASE;

struct Phases {
    pieces: usize,
}

impl Phases {
    fn turn(&self, p: &mut Program, piece: usize, fill: u8) {
        let at = piece * PIECE;
        if p.live().any(|l| l.0 == at) {
            p.free(at);
        } else {
            p.alloc(at, PIECE - 8 * (piece % 4), fill);
        }
    }
}

impl Scenario for Phases {
    fn start(&self, p: &mut Program) {
        for piece in 0..self.pieces {
            if piece % 5 < 3 {
                self.turn(p, piece, piece as u8);
            }
        }
        p.stack_used = 200;
    }
    fn step(&self, p: &mut Program, round: u32) {
        let any = |n: u32, of: usize| mixed(round, n) as usize % of;
        match round / PHASE % 3 {
            0 => (0..12).for_each(|n| self.turn(p, any(n, self.pieces), round as u8)),
            1 => {
                let live: Vec<_> = p.live().collect();
                for n in 0..8 {
                    let (at, len) = live[any(n, live.len())];
                    p.heap[at + any(n + 50, len)] = round as u8 | 1;
                }
            }
            _ => {}
        }
        p.statics[STATICS / 2] = round as u8 | 1;
        let top = p.stack.len() - 16;
        p.stack[top..].fill(round as u8 | 1);
    }
}

/// Modes that whole images are taken in.
pub const WHOLE: [Mode; 4] = [
    Mode::Full,
    Mode::Split,
    Mode::HeapTracker,
    Mode::CopyIfChange,
];

pub fn all(f: &mut Figures) {
    on::<M3>(f, 128);
    on::<M0>(f, 48);
    on::<Spi>(f, 128);
}

fn on<P: Part>(f: &mut Figures, pieces: usize) {
    let one = |mode: &Mode| Series {
        mode: *mode,
        layout: Layout::Crate,
        points: vec![(
            0,
            steady::<P>(Layout::Crate, *mode, &Phases { pieces }, ROUNDS).0,
        )],
        rounds: ROUNDS,
    };
    let all: Vec<Series> = WHOLE.iter().chain(Mode::LOG).map(one).collect();
    f.series::<P>(&format!("phases_{}", P::NAME), &all, |_| false);
    for (suffix, cost) in [("", P::COST), ("_phys", phys::<P>())] {
        let Some((adaptive, whole)) = best(&all, 0, &cost) else {
            return;
        };
        let machine = if P::NAME == "m3" {
            String::new()
        } else {
            format!("_{}", P::NAME)
        };
        if suffix.is_empty() || cost != P::COST {
            f.say(
                format!("adaptive_phases_ratio{machine}{suffix}"),
                adaptive / whole,
            );
        }
    }
}
