//! Modelled times: those of the bus, which `heap-bytes` counts, and those of the core.

use crate::Figures;

/// Clock of the core, in MHz: an ESP32-C3. It is taken to execute an instruction in each cycle.
const CORE_MHZ: f64 = 160.0;

/// How the bus is used: the end of a measured key, and the end of the key of the modelled time.
const BUS: [(&str, &str); 2] = [
    (".bus_microseconds", ".modelled"),
    (".bus_microseconds_by_words", ".modelled_by_words"),
];

/// Adds `KEY.modelled` and `KEY.modelled_by_words` for each time on the bus. For the heap the
/// instructions on RISC-V are added, and `KEY.core` shows them alone; where they were not measured
/// there is no sum. The bus is all that is known of the others, and nothing when it is not used.
pub fn add(figures: &mut Figures) {
    let mut all = Figures::new();
    for (key, bus) in figures.iter() {
        let Some((of, modelled)) = (BUS.iter()).find_map(|(b, m)| Some((key.strip_suffix(b)?, m)))
        else {
            continue;
        };
        let mut time = *bus;
        if !of.starts_with("heap.") && time == 0.0 {
            continue;
        }
        if let Some(name) = of.strip_prefix("heap.") {
            let instructions = format!("machine.riscv.heap_{name}.instructions");
            let Some(n) = figures.get(&instructions) else {
                continue;
            };
            all.insert(format!("{of}.core"), n / CORE_MHZ);
            time += n / CORE_MHZ;
        }
        all.insert(format!("{of}{modelled}"), time);
    }
    figures.extend(all);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaps_time_has_both_parts() {
        let mut f: Figures = [
            ("heap.a.bus_microseconds", 10.0),
            ("heap.a.bus_microseconds_by_words", 20.0),
            ("heap.b.bus_microseconds", 10.0),
            ("modules.a.bus_microseconds_by_words", 40.0),
            ("modules.b.bus_microseconds", 0.0),
            ("machine.riscv.heap_a.instructions", 320.0),
        ]
        .map(|(k, v)| (k.to_owned(), v))
        .into();
        add(&mut f);
        assert_eq!((f["heap.a.modelled"], f["heap.a.core"]), (12.0, 2.0));
        assert_eq!(f["heap.a.modelled_by_words"], 22.0);
        assert_eq!(f["modules.a.modelled_by_words"], 40.0);
        assert!(!f.contains_key("heap.b.modelled") && !f.contains_key("modules.b.modelled"));
    }
}
