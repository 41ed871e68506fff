//! What is outside of the device, and survives power cuts.

use std::collections::BTreeMap;

/// What the outside has seen, and the clock with its battery.
#[derive(Clone, Hash, Debug, Default)]
pub struct Outside {
    /// Packets on the air, by their number: channel and mean.
    pub air: BTreeMap<u8, (u8, u8)>,
    /// The most lamps' value that was seen.
    pub lamps: u8,
    /// Whether the lamps count upwards, and nothing that was seen may be taken back.
    pub counts: bool,
    /// Registers of the clock.
    pub rtc: [u8; 19],
    /// How often each number was written to the clock.
    pub numbered: BTreeMap<u8, u8>,
    /// How far the program says it has come.
    pub progress: u32,
    /// Events that a source was told are stored.
    pub posted: Vec<u8>,
    /// Events for which the ring had no room.
    pub refused: u8,
    /// The checkpoint.
    pub image: Option<Image>,
}

/// What a checkpoint of a program's RAM holds of it and its devices.
#[derive(Clone, Copy, Hash, Debug)]
pub struct Image {
    pub round: u32,
    pub lit: (u8, bool),
    pub limits: ((i16, i16), bool),
}

impl Outside {
    /// The lamps show something else. The outside must never see what is taken back later.
    pub fn lamps_show(&mut self, value: u8) {
        if !self.counts {
            return;
        }
        let next = value == self.lamps || value == self.lamps.wrapping_add(1);
        assert!(next, "the lamps showed {}, and now {value}", self.lamps);
        self.lamps = value;
    }

    /// A packet has arrived: its number and the mean.
    pub fn receive(&mut self, channel: u8, packet: &[u8]) {
        let &[number, mean] = packet else {
            panic!("half a packet: {packet:?}")
        };
        let first = *self.air.entry(number).or_insert((channel, mean));
        assert_eq!(first, (channel, mean), "packet {number} has changed");
    }

    pub fn rtc_write(&mut self, at: usize, value: u8) {
        self.rtc[at % 19] = value;
        if at == 0x10 {
            *self.numbered.entry(value).or_default() += 1;
        }
    }
}
