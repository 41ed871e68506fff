//! The configuration of a pool: chosen when it is formatted, stored in its superblock.

use crate::error::{Component, OpenError};
use nvmem::superblock::{Difference, Superblock, View};
use nvmem::{LayoutMismatch, Model, Unit};

/// The kind of superblock.
pub(crate) const KIND: [u8; 4] = *b"POOL";
/// Version of the format.
pub(crate) const VERSION: u16 = 1;
/// The most contexts of a pool.
pub const MAX_CONTEXTS: usize = 8;

/// The sizes of a pool's journals. Fixed when the pool is formatted, and read from the medium
/// afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Journal entries of each context: the number of ranges and blocks that one transaction may
    /// change.
    pub journal_entries: u16,
    /// Bytes of old content that one transaction may log, rounded up to 8.
    pub journal_bytes: u32,
    /// Width of the sequence number, 3 to 16 bits (8 on a medium with 16-bit units). After
    /// 2^(bits-1) transactions stale journal headers are cleared; a small width is for tests.
    pub seq_bits: u8,
}

impl Config {
    /// 32 entries, 1 KiB of old content, sequence numbers as wide as the medium's units allow.
    pub const DEFAULT: Config = Config {
        journal_entries: 32,
        journal_bytes: 1024,
        seq_bits: 16,
    };
    /// 8 entries and 64 bytes of old content, for pools of less than a kilobyte.
    pub const SMALL: Config = Config {
        journal_entries: 8,
        journal_bytes: 64,
        seq_bits: 16,
    };
}

impl Config {
    /// The configuration that [`Pool::open`](crate::Pool::open) uses for a region of `len` bytes.
    /// Old content gets an eighth of it, between 64 bytes and 1 KiB. There is one entry for each 32
    /// bytes of old content, at least 8.
    pub const fn for_len(len: usize) -> Config {
        let bytes = match len / 8 {
            0..64 => 64,
            b @ 64..1024 => b,
            _ => 1024,
        };
        let entries = if bytes < 256 { 8 } else { bytes / 32 };
        Config {
            journal_entries: entries as u16,
            journal_bytes: bytes as u32,
            seq_bits: 16,
        }
    }
}

impl Config {
    /// The superblock parameters for a larger structure of `len` bytes that contains a pool with
    /// one root. Parameter 0 is left to the caller.
    #[doc(hidden)]
    #[inline(always)]
    pub fn params<M: Model>(&self, len: usize) -> [u32; 8] {
        superblock::<M>(self, 0, len, 0).params
    }
}

impl Default for Config {
    fn default() -> Self {
        Config::DEFAULT
    }
}

/// Superblock parameters, by index.
pub(crate) mod param {
    pub const CONTEXTS: usize = 0;
    pub const ENTRIES: usize = 1;
    pub const BYTES: usize = 2;
    pub const SEQ_BITS: usize = 3;
    pub const UNIT: usize = 4;
    pub const LEN: usize = 5;
    /// The sequence number of a committed migration that is not yet entered in the commit word; 0
    /// if none.
    pub const MIGRATED: usize = 6;

    /// For these parameters the stored value counts, not the one that the program would choose
    /// today.
    pub const STORED: u8 = 1 << ENTRIES | 1 << BYTES | 1 << SEQ_BITS | 1 << MIGRATED;
}

pub(crate) fn superblock<M: Model>(
    c: &Config,
    contexts: usize,
    len: usize,
    fingerprint: u64,
) -> Superblock {
    let mut params = [0; 8];
    params[param::CONTEXTS] = contexts as u32;
    params[param::ENTRIES] = c.journal_entries as u32;
    params[param::BYTES] = c.journal_bytes;
    params[param::SEQ_BITS] = c.seq_bits as u32;
    params[param::UNIT] = M::Unit::BYTES as u32;
    params[param::LEN] = u32::try_from(len).unwrap_or(u32::MAX);
    Superblock {
        kind: KIND,
        version: VERSION,
        fingerprint,
        params,
    }
}

/// The configuration stored in a superblock, if its values are in range.
pub(crate) fn stored_config(sb: &Superblock) -> Option<Config> {
    Some(Config {
        journal_entries: u16::try_from(sb.params[param::ENTRIES]).ok()?,
        journal_bytes: sb.params[param::BYTES],
        seq_bits: u8::try_from(sb.params[param::SEQ_BITS]).ok()?,
    })
}

/// The error for a pool whose superblock differs from `mine`.
#[inline(always)]
pub(crate) fn mismatch_error<M: Model>(
    stored: &View<'_, '_, M>,
    mine: &Superblock,
    other: Difference,
) -> OpenError {
    match other {
        Difference::Layout => OpenError::LayoutMismatch(LayoutMismatch {
            stored: stored.layout(),
            expected: mine.layout(),
        }),
        Difference::Param(param::UNIT) => {
            OpenError::Config("the pool was formatted for another atomic unit")
        }
        Difference::Param(param::LEN) => OpenError::OtherLength {
            formatted: stored.param(param::LEN) as usize,
        },
        Difference::Param(_) => OpenError::Damaged(Component::Superblock),
    }
}
