//! Lines `key value`.

use crate::flash::Part;
use crate::run::{Layout, Mode};
use checkpoint::{Cost, Work};
use std::collections::BTreeMap;

/// Figures by their keys.
#[derive(Debug, Default)]
pub struct Figures(pub BTreeMap<String, f64>);

/// One line of a diagram: a checkpoint's work at each point, added up over as many rounds.
#[derive(Debug, Clone)]
pub struct Series {
    pub mode: Mode,
    pub layout: Layout,
    pub points: Vec<(u32, Work)>,
    pub rounds: u32,
}

/// The same flash where comparing costs what reading does.
pub fn phys<P: Part>() -> Cost {
    P::COST.with_compare_cost(Cost::MAPPED_PJ.min(P::COST.compare_pj), P::COST.read_ns)
}

impl Series {
    /// Microjoules of one checkpoint at each point.
    pub fn energy(&self, cost: &Cost) -> Vec<(u32, f64)> {
        let one = |w: &Work| cost.energy_nj(w) as f64 / 1000.0 / f64::from(self.rounds);
        self.points.iter().map(|(x, w)| (*x, one(w))).collect()
    }

    fn name(&self) -> String {
        let of = match self.layout {
            Layout::Crate => "",
            Layout::Paper => "_paper",
            Layout::PaperOneByte => "_paper_one_byte",
        };
        format!("{}{of}", self.mode.name())
    }
}

impl Figures {
    pub fn say(&mut self, key: impl Into<String>, value: f64) {
        // Tenths of a microjoule are enough, and the same everywhere.
        self.0.insert(
            format!("checkpoint.{}", key.into()),
            (value * 1e4).round() / 1e4,
        );
    }

    /// Sums over the grid, and the points that are drawn.
    pub fn series<P: Part>(&mut self, grid: &str, all: &[Series], drawn: impl Fn(u32) -> bool) {
        for s in all {
            let name = s.name();
            let sum = |cost: &Cost| s.energy(cost).iter().map(|p| p.1).sum::<f64>();
            self.say(format!("{grid}.{name}.energy_uj"), sum(&P::COST));
            // Whoever compares nothing takes the same.
            if phys::<P>() != P::COST && s.points.iter().any(|p| p.1.compared > 0) {
                self.say(format!("{grid}.{name}.energy_uj_phys"), sum(&phys::<P>()));
            }
            for ((x, w), (_, uj)) in s.points.iter().zip(s.energy(&P::COST)) {
                if drawn(*x) {
                    let us = P::COST.time_ns(w) as f64 / 1000.0 / f64::from(s.rounds);
                    self.say(format!("{grid}.{name}.at_{x}.energy_uj"), uj);
                    if ["fig7", "fig9"].contains(&grid) || grid.ends_with("_restore") {
                        self.say(format!("{grid}.{name}.at_{x}.time_us"), us);
                    }
                }
            }
        }
    }
}

impl Figures {
    /// How the adaptive mode stands to the best other one where that is worst, 128 bytes more
    /// allowed.
    pub fn worst<P: Part>(&mut self, grid: &str, all: &[Series]) {
        for (suffix, cost) in [("", P::COST), ("_phys", phys::<P>())] {
            let unit = cost.operations(0, 128) as f64 * f64::from(cost.program_nj) / 1000.0;
            let points = all.first().map_or(0, |s| s.points.len());
            let ratios = (0..points).filter_map(|i| {
                let (adaptive, least) = best(all, i, &cost)?;
                Some((adaptive - unit).max(0.0) / least)
            });
            let Some(worst) = ratios.max_by(f64::total_cmp) else {
                continue;
            };
            self.say(format!("{grid}.adaptive_worst_ratio{suffix}"), worst);
            let key = format!("adaptive_worst_ratio{suffix}");
            let so_far = self.0.get(&format!("checkpoint.{key}")).copied();
            self.say(key, so_far.unwrap_or(0.0).max(worst));
        }
    }
}

/// From which point on the first takes less than the second, at all further ones too.
pub fn crossover(first: &Series, second: &Series, cost: &Cost) -> Option<u32> {
    let (a, b) = (first.energy(cost), second.energy(cost));
    let worse = a.iter().zip(&b).rposition(|(a, b)| a.1 >= b.1);
    a.get(worse.map_or(0, |i| i + 1)).map(|p| p.0)
}

/// At a point: what the adaptive mode takes, and what the best of the others that are in slots
/// does.
pub fn best(all: &[Series], point: usize, cost: &Cost) -> Option<(f64, f64)> {
    let of = |s: &Series| s.energy(cost).get(point).map(|p| p.1);
    let ours = |s: &&Series| s.layout == Layout::Crate;
    let adaptive = all
        .iter()
        .filter(ours)
        .find(|s| s.mode == Mode::Adaptive)
        .and_then(of)?;
    let others = all.iter().filter(ours).filter(|s| s.mode != Mode::Adaptive);
    let least = others.filter_map(of).min_by(f64::total_cmp)?;
    Some((adaptive, least))
}
