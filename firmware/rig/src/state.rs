//! The state that survives a power cut, and the log of the stores to it.

use relume_models::bench::{Bench, KEPT};
use relume_suite::abi::{self, cell};

/// Bytes of non-volatile memory.
pub const NVM: usize = abi::NVM_BYTES;
/// Bytes of the mailbox.
pub const MAILBOX: usize = 2 * abi::cell::COUNT as usize;

/// Where what the bench keeps begins.
pub const BENCH: usize = NVM + MAILBOX;

/// Everything outside of the power domain: the non-volatile memory, the mailbox behind it, and then
/// what the devices keep and the outside has seen of them.
#[derive(Clone, PartialEq, Eq)]
pub struct State(pub Box<[u8; BENCH + KEPT]>);

/// Cells that start-up sets anew or that only count: no scenario reads them, so they are no part of
/// what a boot depends on.
const NOT_READ: core::ops::Range<usize> =
    NVM + 2 * cell::STATUS as usize..NVM + 2 * (cell::TICKS as usize + 1);

impl State {
    /// A blank memory of `bytes`, and a mailbox that names a scenario. The bytes behind are filled
    /// with a pattern: no scenario may change them.
    pub fn blank(bytes: usize, scenario: u16, argument: u16) -> Self {
        let mut s = State(Box::new([0; BENCH + KEPT]));
        s.0[bytes.min(NVM)..NVM].fill(0xA5);
        s.write_cell(cell::SCENARIO, scenario);
        s.write_cell(cell::ARGUMENT, argument);
        s
    }

    /// The non-volatile memory.
    pub fn nvm(&self) -> &[u8] {
        &self.0[..NVM]
    }

    /// The mailbox.
    pub fn mailbox(&self) -> &[u8] {
        &self.0[NVM..BENCH]
    }

    /// What the devices keep.
    pub fn bench(&self) -> &[u8; KEPT] {
        self.0.last_chunk().unwrap_or(&[0; KEPT])
    }

    /// What a cell of the mailbox says.
    pub fn read_cell(&self, cell: u16) -> u16 {
        let at = NVM + 2 * usize::from(cell);
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    /// Writes to a cell.
    pub fn write_cell(&mut self, cell: u16, value: u16) {
        let at = NVM + 2 * usize::from(cell);
        self.0[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    /// A hash of everything that a boot depends on. It has 128 bits, so that two different states
    /// do not share one by chance.
    pub fn hash(&self) -> u128 {
        let bytes = self.0.iter().enumerate();
        bytes.fold(0, |h, (i, b)| h.wrapping_add(share(i, *b)))
    }

    /// Makes a store, and brings the hash up to date.
    pub fn apply(&mut self, s: &Store, hash: &mut u128) {
        for (i, new) in s.bytes().iter().enumerate() {
            let at = usize::from(s.at) + i;
            if NOT_READ.contains(&at) {
                continue;
            }
            *hash = hash
                .wrapping_sub(share(at, self.0[at]))
                .wrapping_add(share(at, *new));
            self.0[at] = *new;
        }
    }

    /// Whether a boot would go the same way from both.
    pub fn same(&self, other: &State) -> bool {
        self.0[..NOT_READ.start] == other.0[..NOT_READ.start]
            && self.0[NOT_READ.end..] == other.0[NOT_READ.end..]
    }
}

/// One byte's share of a hash; 0 for a byte that is 0.
fn share(at: usize, byte: u8) -> u128 {
    if byte == 0 {
        return 0;
    }
    let x = (at as u64) << 8 | u64::from(byte);
    u128::from(mix(x)) << 64 | u128::from(mix(x ^ 0x5851_F42D_4C95_7F2D))
}

/// The finaliser of splitmix64.
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

/// The most bytes that one access changes: what a device keeps.
const WHOLE: usize = 16;

/// One store of one atomic unit, or of a part of one; or what an access to a device has changed of
/// what is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Store {
    /// Offset in a [`State`].
    pub at: u16,
    len: u8,
    bytes: [u8; WHOLE],
    /// How many instructions had ended before the one that stores. 0 in a run without detail, as
    /// the next two.
    pub instruction: u32,
    /// The address of that instruction.
    pub pc: u32,
    /// Cycles before that instruction, where the machine counts them.
    pub cycle: u64,
}

impl Store {
    /// What was stored.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The same, cut in the middle: of its bits some are the new ones, the others those that were
    /// there. Two variants, 1 and 2, of which one has each bit.
    pub fn torn(&self, before: &State, variant: u8) -> Store {
        let from = usize::from(self.at);
        let [a, b, c, d, ..] = self.bytes;
        let new = u32::from_le_bytes([a, b, c, d]);
        let mask = mix(u64::from(self.at) << 32 | u64::from(new));
        let mask = if variant == 1 { mask } else { !mask }.to_le_bytes();
        let mut out = *self;
        let old = &before.0[from..from + usize::from(self.len)];
        for ((to, old), m) in out.bytes.iter_mut().zip(old).zip(mask) {
            *to = *to & m | old & !m;
        }
        out
    }

    /// Whether it went to the non-volatile memory.
    pub fn in_nvm(&self) -> bool {
        usize::from(self.at) < NVM
    }

    /// Whether it is what a device keeps.
    pub fn on_bench(&self) -> bool {
        usize::from(self.at) >= BENCH
    }

    /// The mailbox's cell and its value.
    pub fn mailbox_write(&self) -> Option<(u16, u16)> {
        if self.on_bench() {
            return None;
        }
        let cell = usize::from(self.at).checked_sub(NVM)? / 2;
        let v = self.bytes().iter().rev();
        Some((cell as u16, v.fold(0, |v, b| v << 8 | u16::from(*b))))
    }

    /// Whether both store the same at the same place.
    pub fn same(&self, other: &Store) -> bool {
        (self.at, self.bytes()) == (other.at, other.bytes())
    }
}

/// The stores of a run to what survives, in order, one atomic unit each.
#[derive(Debug, Default)]
pub struct Log {
    /// The stores.
    pub stores: Vec<Store>,
}

impl Log {
    /// Records one machine store before it is made: as many units as it touches, from the lowest
    /// address upwards.
    ///
    /// `at` is an offset in a [`State`]; the caller has checked that the store lies inside.
    pub fn store(&mut self, unit: usize, at: usize, bytes: &[u8], when: When) {
        let (mut at, mut rest) = (at, bytes);
        while !rest.is_empty() {
            let n = rest.len().min(unit - at % unit);
            self.whole(at, &rest[..n], when);
            (at, rest) = (at + n, &rest[n..]);
        }
    }

    fn whole(&mut self, at: usize, bytes: &[u8], when: When) {
        let mut padded = [0; WHOLE];
        padded[..bytes.len()].copy_from_slice(bytes);
        self.stores.push(Store {
            at: at as u16,
            len: bytes.len() as u8,
            bytes: padded,
            instruction: when.instruction,
            pc: when.pc,
            cycle: when.cycle,
        });
    }

    /// Records what an access to the bench changes of what is kept: all of it at once.
    pub fn access<O>(
        &mut self,
        bench: &mut Bench,
        when: When,
        f: impl FnOnce(&mut Bench) -> O,
    ) -> O {
        let before = bench.kept();
        let o = f(bench);
        let after = bench.kept();
        let differs = |i: &usize| before[*i] != after[*i];
        if let (Some(first), Some(last)) = ((0..KEPT).find(differs), (0..KEPT).rev().find(differs))
        {
            self.whole(BENCH + first, &after[first..=last], when);
        }
        o
    }
}

/// What a program does with a register of the bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It loads it.
    Load,
    /// It stores this.
    Store(u16),
}

/// The register of an access at this offset in the bench's page, if it is one of a whole register.
pub fn register(offset: u64, bytes: usize) -> Option<u16> {
    let whole = bytes == 2 && offset.is_multiple_of(2);
    (whole && offset < 2 * u64::from(abi::bench::COUNT)).then_some(offset as u16 / 2)
}

/// Where in a run something happened.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct When {
    /// Instructions that had ended before.
    pub instruction: u32,
    /// The instruction's address.
    pub pc: u32,
    /// Cycles before it.
    pub cycle: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_store_is_several_units_in_order_and_a_misaligned_one_more() {
        let mut log = Log::default();
        log.store(4, 8, &[1, 2, 3, 4, 5, 6, 7, 8], When::default());
        log.store(4, 18, &[1, 2, 3, 4], When::default());
        log.store(2, 18, &[1, 2, 3, 4], When::default());
        log.store(4, 5, &[9], When::default());
        let got: Vec<_> = log.stores.iter().map(|s| (s.at, s.bytes())).collect();
        let want: [(u16, &[u8]); 7] = [
            (8, &[1, 2, 3, 4]),
            (12, &[5, 6, 7, 8]),
            (18, &[1, 2]),
            (20, &[3, 4]),
            (18, &[1, 2]),
            (20, &[3, 4]),
            (5, &[9]),
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn the_hash_follows_the_stores_and_knows_places() {
        let (mut a, mut log) = (State::blank(64, 3, 0), Log::default());
        let mut h = a.hash();
        log.store(4, 4, &[1, 0, 2, 0], When::default());
        log.store(
            4,
            NVM + 2 * usize::from(cell::OWN),
            &[7, 0],
            When::default(),
        );
        for s in &log.stores {
            a.apply(s, &mut h);
        }
        assert_eq!(h, a.hash());
        assert_eq!(a.read_cell(cell::OWN), 7);
        let mut b = State::blank(64, 3, 0);
        b.0[5] = 1;
        let mut c = State::blank(64, 3, 0);
        c.0[6] = 1;
        assert_ne!(b.hash(), c.hash());
    }

    #[test]
    fn what_an_access_changes_is_one_store() {
        let (mut s, mut log, mut bench) = (State::blank(64, 3, 0), Log::default(), Bench::new());
        let mut h = s.hash();
        bench.power_on(s.bench());
        let mut write =
            |register, value| log.access(&mut bench, When::default(), |d| d.write(register, value));
        write(abi::bench::ALARM, 0x0102);
        write(abi::bench::NUMBER, 0x0304);
        assert_eq!(log.stores.len(), 1);
        let stored = &log.stores[0];
        assert!(stored.on_bench() && !stored.in_nvm() && stored.mailbox_write().is_none());
        assert_eq!(stored.bytes(), [2, 1, 4, 3, 1]);
        s.apply(stored, &mut h);
        assert_eq!(h, s.hash());
        assert_eq!(*s.bench(), bench.kept());
    }

    #[test]
    fn registers_are_accessed_whole() {
        assert_eq!(register(4, 2), Some(2));
        for (offset, bytes) in [
            (4, 1),
            (4, 4),
            (5, 2),
            (2 * u64::from(abi::bench::COUNT), 2),
        ] {
            assert_eq!(register(offset, bytes), None);
        }
    }

    #[test]
    fn a_torn_store_is_between_the_old_and_the_new() {
        let (mut before, mut log) = (State::blank(64, 3, 0), Log::default());
        before.0[4..8].copy_from_slice(&[0xFF; 4]);
        log.store(4, 4, &[0x12, 0x34, 0x56, 0x78], When::default());
        let [a, b] = [1, 2].map(|v| log.stores[0].torn(&before, v));
        assert!(a.bytes() != b.bytes() && !a.same(&log.stores[0]));
        for (i, new) in log.stores[0].bytes().iter().enumerate() {
            assert_eq!(a.bytes()[i] & b.bytes()[i], *new, "bits only go one way");
            assert_eq!(a.bytes()[i] | b.bytes()[i], 0xFF);
        }
    }

    #[test]
    fn what_start_up_sets_anew_is_no_part_of_a_state() {
        let (mut a, mut log) = (State::blank(64, 3, 0), Log::default());
        let (before, mut h) = (a.clone(), a.hash());
        log.store(
            4,
            NVM + 2 * usize::from(cell::BOOTS),
            &[1, 0],
            When::default(),
        );
        a.apply(&log.stores[0], &mut h);
        assert!(a == before && h == before.hash());
    }
}
