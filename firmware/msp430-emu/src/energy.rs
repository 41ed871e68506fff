//! The energy of a run, by a model that others have measured.
//!
//! Fused (S. T. Sliper, W. Wang, N. Nikoleris, A. S. Weddell, G. V. Merrett: "Fused: Closed-Loop
//! Performance and Energy Simulation of Embedded Systems", ISPASS 2020) simulates an MSP430FR5994.
//! Its authors fitted the energy of each access and of each other cycle to measurements of the
//! device. The numbers are those of its public sources, `config/Msp430TestBoard-config.yml` of
//! <https://github.com/UoS-EEC/fused>. Each access takes a cycle, and all other cycles are "idle":
//! so a cycle that waits for FRAM is, too.

use crate::cycles::Accesses;

/// Nanojoules of each event.
#[derive(Clone, Copy, Debug)]
pub struct Energy {
    /// A cycle without an access.
    pub cycle: f64,
    /// A read of FRAM that the cache answers.
    pub hit: f64,
    /// One that loads a line of 8 bytes.
    pub miss: f64,
    /// A store to FRAM.
    pub write: f64,
    /// A load from SRAM, or a store to it.
    pub ram: f64,
    /// A reset.
    pub reset: f64,
}

impl Energy {
    /// An MSP430FR5994. The reset's charge of 102 nAs, at 3 V, is that of SLASE54C, "Typical
    /// Wake-up Charge".
    pub const FR5994: Energy = Energy {
        cycle: 0.201_28,
        hit: 0.211_59,
        miss: 0.634_67,
        write: 0.682_32,
        ram: 0.198_12,
        reset: 102.0 * 3.0,
    };

    /// Nanojoules of so many cycles with these accesses.
    pub fn of(&self, cycles: u64, a: &Accesses) -> f64 {
        let accesses = a.hits + a.misses + a.writes + a.ram;
        cycles.saturating_sub(accesses) as f64 * self.cycle
            + a.hits as f64 * self.hit
            + a.misses as f64 * self.miss
            + a.writes as f64 * self.write
            + a.ram as f64 * self.ram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cycle_is_an_access_or_none() {
        let a = Accesses {
            hits: 2,
            misses: 1,
            writes: 1,
            ram: 3,
        };
        let e = Energy {
            cycle: 1.0,
            hit: 10.0,
            miss: 100.0,
            write: 1000.0,
            ram: 10_000.0,
            reset: 0.0,
        };
        assert_eq!(e.of(9, &a), 31_122.0);
    }
}
