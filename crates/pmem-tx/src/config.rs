//! How a pool is divided: chosen when it is formatted, kept in its superblock.

use crate::error::{Component, OpenError};
use nvmem::superblock::{Differs, Superblock, View};
use nvmem::{LayoutMismatch, Model, Unit};

/// The kind of superblock.
pub(crate) const KIND: [u8; 4] = *b"POOL";
/// Version of the format.
pub(crate) const VERSION: u16 = 1;
/// The most contexts of a pool.
pub const MAX_CONTEXTS: usize = 8;

/// How a pool is divided; fixed when it is formatted and read from the medium afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// How many ranges and blocks one transaction may touch before its journal is full.
    pub journal_entries: u16,
    /// How many bytes of old content one transaction may log, rounded up to 8.
    pub journal_bytes: u32,
    /// Width of the sequence number, 3 to 16 bits (8 on a medium with 16-bit units). After 2^(bits-1) transactions stale
    /// journal headers are cleared; a small width is for tests.
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
    /// What [`Pool::open`](crate::Pool::open) takes for a region of `len` bytes: old content up to an eighth of it, between 64
    /// bytes and 1 KiB, and an entry for each 32 bytes of that, at least 8.
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
    /// The parameters of the superblock of something in `len` bytes of which a pool with one root is a part. The first is free.
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
    /// The sequence number of a migration that is committed but not yet entered in the commit word; 0 is none.
    pub const MIGRATED: usize = 6;

    /// Those of the stored superblock count, not those that the program would choose today.
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

/// The configuration that a superblock tells, if it can be one.
pub(crate) fn stored_config(sb: &Superblock) -> Option<Config> {
    Some(Config {
        journal_entries: u16::try_from(sb.params[param::ENTRIES]).ok()?,
        journal_bytes: sb.params[param::BYTES],
        seq_bits: u8::try_from(sb.params[param::SEQ_BITS]).ok()?,
    })
}

/// Why a pool that says something else than `mine` cannot be opened.
#[inline(always)]
pub(crate) fn mismatch_error<M: Model>(
    stored: &View<'_, '_, M>,
    mine: &Superblock,
    other: Differs,
) -> OpenError {
    match other {
        Differs::Layout => OpenError::LayoutMismatch(LayoutMismatch {
            stored: stored.layout(),
            expected: mine.layout(),
        }),
        Differs::Param(param::UNIT) => {
            OpenError::Config("the pool was formatted for another atomic unit")
        }
        Differs::Param(param::LEN) => OpenError::OtherLength {
            formatted: stored.param(param::LEN) as usize,
        },
        Differs::Param(_) => OpenError::Damaged(Component::Superblock),
    }
}
