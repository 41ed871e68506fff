//! Figures 7 to 11: contiguous data, modified blocks, chunks that are not allocated.

use crate::flash::{M0, M3, Part};
use crate::program::{Program, STACK};
use crate::run::{Layout, Mode, Scenario, first, steady};
use crate::say::{Figures, Series, crossover, phys};
use checkpoint::{BLOCK, Work};

/// Checkpoints of which a point is the mean.
const ROUNDS: u32 = 12;
/// The same of the log, which cleans up now and then.
const OF_LOG: u32 = 5 * ROUNDS;

const CHUNK: usize = BLOCK as usize;

/// A number that follows from others.
pub fn mixed(a: u32, b: u32) -> u32 {
    let mut v = a.wrapping_mul(0x9E37_79B9) ^ b.wrapping_mul(0x85EB_CA6B);
    for _ in 0..2 {
        v ^= v >> 15;
        v = v.wrapping_mul(0x2C1B_3C6D);
    }
    v ^ v >> 16
}

/// Chunks of the heap side by side; all of them change between two checkpoints.
struct Contiguous(usize);
impl Scenario for Contiguous {
    fn start(&self, p: &mut Program) {
        for at in (0..self.0).step_by(CHUNK) {
            p.alloc(at, CHUNK.min(self.0 - at), 1);
        }
    }
    fn step(&self, p: &mut Program, round: u32) {
        for (i, b) in p.heap[..self.0].iter_mut().enumerate() {
            *b = mixed(i as u32, round) as u8 | 1;
        }
    }
}

/// The same on the stack.
struct OnStack(usize);
impl Scenario for OnStack {
    fn start(&self, p: &mut Program) {
        p.stack_used = self.0;
    }
    fn step(&self, p: &mut Program, round: u32) {
        for (i, b) in p.stack.iter_mut().enumerate() {
            *b = mixed(i as u32, round) as u8 | 1;
        }
    }
    fn stack(&self) -> usize {
        self.0 + STACK
    }
}

/// All of RAM in use; so many blocks of it change, others each time.
struct Modified {
    blocks: usize,
    scattered: bool,
}
impl Scenario for Modified {
    fn start(&self, p: &mut Program) {
        p.alloc(0, p.heap.len(), 1);
        p.stack_used = p.stack.len();
    }
    fn step(&self, p: &mut Program, round: u32) {
        let all = p.heap.len() / CHUNK;
        let mut order: Vec<usize> = (0..all).collect();
        if self.scattered {
            order.sort_by_key(|b| mixed(*b as u32, round));
        } else {
            order.rotate_left(mixed(7, round) as usize % all);
        }
        for b in order.into_iter().take(self.blocks) {
            p.heap[b * CHUNK + 5] = p.heap[b * CHUNK + 5].wrapping_add(2);
        }
    }
}

/// Two chunks with others between them that are not allocated; both change.
struct Apart(usize);
impl Scenario for Apart {
    fn start(&self, p: &mut Program) {
        p.alloc(0, CHUNK, 1);
        p.alloc((self.0 + 1) * CHUNK, CHUNK, 1);
    }
    fn step(&self, p: &mut Program, round: u32) {
        for at in [0, (self.0 + 1) * CHUNK] {
            p.heap[at..at + CHUNK].fill(mixed(at as u32, round) as u8 | 1);
        }
    }
}

/// A line over some points: of checkpoints, and of restores.
fn line<P: Part, S: Scenario>(
    layout: Layout,
    mode: Mode,
    xs: &[u32],
    of: impl Fn(u32) -> S,
) -> (Series, Series) {
    let rounds = if mode == Mode::Adaptive {
        OF_LOG
    } else {
        ROUNDS
    };
    let (taken, restored): (Vec<(u32, Work)>, Vec<_>) = xs
        .iter()
        .map(|x| {
            let (taken, restored) = steady::<P>(layout, mode, &of(*x), rounds);
            ((*x, taken), (*x, restored))
        })
        .unzip();
    let series = |points, rounds| Series {
        mode,
        layout,
        points,
        rounds,
    };
    (series(taken, rounds), series(restored, 1))
}

/// Both layouts of these modes.
fn lines<P: Part, S: Scenario>(
    modes: &[Mode],
    xs: &[u32],
    of: impl Fn(u32) -> S,
) -> (Vec<Series>, Vec<Series>) {
    let mut out = (Vec::new(), Vec::new());
    let in_log = Mode::LOG.iter().map(|mode| (Layout::Crate, mode));
    let of_both = [Layout::Crate, Layout::Paper]
        .into_iter()
        .flat_map(|l| modes.iter().map(move |mode| (l, mode)));
    for (layout, mode) in of_both.chain(in_log) {
        let (taken, restored) = line::<P, S>(layout, *mode, xs, &of);
        out.0.push(taken);
        out.1.push(restored);
    }
    out
}

/// Figures 7 and 9.
pub fn contiguous(f: &mut Figures) {
    const MODES: [Mode; 4] = [
        Mode::Full,
        Mode::Split,
        Mode::HeapTracker,
        Mode::CopyIfChange,
    ];
    let spans: Vec<u32> = (1..=8).map(|k| k * 4096).collect();
    let (mut taken, mut restored) = lines::<M3, _>(&MODES, &spans, |x| Contiguous(x as usize));
    let (stack, from_stack) = lines::<M3, _>(&[Mode::Stack], &spans, |x| OnStack(x as usize));
    // The log is in the lines of the heap.
    let of_stack = |s: &Series| s.mode == Mode::Stack;
    taken.extend(stack.into_iter().filter(of_stack));
    restored.extend(from_stack.into_iter().filter(of_stack));
    f.series::<M3>("fig7", &taken, |_| true);
    f.worst::<M3>("fig7", &taken);
    f.series::<M3>("fig9", &restored, |_| true);
    // All of RAM in use, and none of it as erased flash is.
    const ALL: Modified = Modified {
        blocks: 0,
        scattered: false,
    };
    let in_slots = |mode| first::<M3>(Layout::Crate, mode, &ALL);
    let in_place = |mode| first::<M3>(Layout::Paper, mode, &ALL);
    let energy = |w: Work| M3::cost_of(&w);
    let full = energy(in_place(Mode::Full));
    f.say("full_paper_mj", full / 1e3);
    f.say(
        "full_paper_s",
        M3::COST.time_ns(&in_place(Mode::Full)) as f64 / 1e9,
    );
    let first_image = in_place(Mode::CopyIfChange);
    f.say("first_image_paper_mj", energy(first_image) / 1e3);
    f.say("first_image_ratio", energy(first_image) / full);
    f.say(
        "first_image_ratio_phys",
        phys::<M3>().energy_nj(&first_image) as f64 / 1e3 / full,
    );
    f.say(
        "first_image_ratio_crate",
        energy(in_slots(Mode::CopyIfChange)) / energy(in_slots(Mode::Full)),
    );
}

trait InMicrojoules: Part {
    fn cost_of(w: &Work) -> f64 {
        Self::COST.energy_nj(w) as f64 / 1000.0
    }
}
impl<P: Part> InMicrojoules for P {}

/// Figure 8, with blocks that lie apart and side by side.
pub fn modified(f: &mut Figures) {
    const MODES: [Mode; 3] = [Mode::Full, Mode::Split, Mode::CopyIfChange];
    let blocks = [0, 10, 20, 40, 80, 120, 160, 200, 300, 400, 500, 600];
    for (grid, scattered) in [("fig8", true), ("fig8_adjacent", false)] {
        let of = |x| Modified {
            blocks: x as usize,
            scattered,
        };
        let (all, _) = lines::<M3, _>(&MODES, &blocks, of);
        f.series::<M3>(grid, &all, |_| true);
        f.worst::<M3>(grid, &all);
    }
}

/// Figures 10 and 11, and where `HeapTracker` overtakes `Split`.
pub fn apart(f: &mut Figures) {
    chunks::<M3>(f, "fig10");
    chunks::<M0>(f, "fig11");
}

/// The most chunks that are not allocated.
const APART: u32 = 60;

fn chunks<P: Part>(f: &mut Figures, figure: &str) {
    let grid = format!("{figure}_{}", P::NAME);
    const MODES: [Mode; 4] = [
        Mode::Full,
        Mode::Split,
        Mode::HeapTracker,
        Mode::CopyIfChange,
    ];
    let xs: Vec<u32> = (0..=APART).collect();
    let (mut taken, mut restored) = lines::<P, _>(&MODES, &xs, |x| Apart(x as usize));
    let (t, r) = line::<P, _>(Layout::PaperOneByte, Mode::HeapTracker, &xs, |x| {
        Apart(x as usize)
    });
    taken.push(t);
    restored.push(r);
    let drawn = |x: u32| x.is_multiple_of(10) || P::NAME == "m0" && [12, 13, 28, 29].contains(&x);
    f.series::<P>(&grid, &taken, drawn);
    f.worst::<P>(&grid, &taken);
    f.series::<P>(&format!("{grid}_restore"), &restored, drawn);
    let one = |all: &[Series], mode, layout| {
        let found = all.iter().find(|s| s.mode == mode && s.layout == layout);
        found.expect("it was measured").clone()
    };
    for (what, all) in [("", &taken), ("_restore", &restored)] {
        for (table, layout) in [
            ("", Layout::Crate),
            ("_paper_table", Layout::Paper),
            ("_paper_one_byte", Layout::PaperOneByte),
        ] {
            let of = if layout == Layout::Crate {
                Layout::Crate
            } else {
                Layout::Paper
            };
            let (tracker, split) = (
                one(all, Mode::HeapTracker, layout),
                one(all, Mode::Split, of),
            );
            if let Some(x) = crossover(&tracker, &split, &P::COST) {
                f.say(
                    format!("crossover{what}_{}_chunks{table}", P::NAME),
                    x.into(),
                );
            }
        }
    }
    // Where one more chunk needs one more erase.
    let split = one(&taken, Mode::Split, Layout::Paper);
    let mut steps = split
        .points
        .windows(2)
        .filter(|w| w[1].1.erases > w[0].1.erases);
    if P::NAME == "m0" {
        f.say(
            "m0_steps",
            steps.clone().filter(|w| w[1].0 <= 40).count() as f64,
        );
        for name in ["m0_first_step", "m0_second_step"] {
            f.say(name, steps.next().map_or(0.0, |w| w[1].0.into()));
        }
    }
}
