//! Prints the kernel's part of an image without the program that wrote it. Only reads; accepts any
//! bytes.

use crate::boot::{KIND, VERSION, param};
use crate::ram::{ABORTED, FAILED};
use crate::store;
use core::fmt::{Display, Formatter, Result, Write};
use nv_replay::nvmem::tagged::Words;
use nv_replay::nvmem::{InOrder16, InOrder32, Model, Superblock, Unit};

/// Whether this superblock belongs to a kernel that [`kernel`] can print.
pub fn is_kernel(sb: &Superblock) -> bool {
    sb.kind == KIND && sb.version == VERSION
}

/// Where the threads begin, whose tables and pool have a superblock of their own. `None` if the
/// parameters are damaged.
pub fn threads_at(sb: &Superblock) -> Option<usize> {
    let [words, slots] = [param::WORDS, param::SLOTS].map(|p| usize::try_from(sb.params[p]));
    let (words, slots) = (words.ok()?, slots.ok()?);
    let bytes = match sb.params[param::UNIT] {
        2 => store::bytes::<InOrder16>(words, slots),
        4 => store::bytes::<InOrder32>(words, slots),
        _ => return None,
    };
    Superblock::BYTES.checked_add(bytes)
}

/// Whose word it is.
#[derive(Clone, Copy)]
enum Of {
    Object,
    /// The thread of this number.
    Thread(usize),
    /// The thread of this number, in a reserved place.
    Place(usize),
}

impl Of {
    fn word(index: usize, sb: &Superblock) -> Self {
        let threads = sb.params[param::THREADS] as usize;
        let (all, places, first) = (threads % 16, threads / 16 % 16, threads >> 8);
        match index.checked_sub(first) {
            Some(thread) if thread + places < all => Of::Thread(thread),
            Some(thread) if thread < all => Of::Place(thread),
            _ => Of::Object,
        }
    }
}

impl Display for Of {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Of::Object => Ok(()),
            Of::Thread(t) => write!(f, ", thread {t}"),
            Of::Place(t) => write!(f, ", thread {t} in a reserved place"),
        }
    }
}

/// A state, and what it means.
struct State(u64, Of);

impl Display for State {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let State(state, of) = *self;
        write!(f, "{state:#04x}")?;
        match (of, u8::try_from(state)) {
            (Of::Object, _) | (_, Err(_)) => Ok(()),
            (_, Ok(ABORTED)) => f.write_str(" (aborted)"),
            (Of::Place(_), Ok(FAILED)) => f.write_str(" (free, failed)"),
            (Of::Place(_), Ok(0)) => f.write_str(" (free)"),
            (Of::Thread(_), Ok(0)) => f.write_str(" (its own priority)"),
            (_, Ok(other)) => write!(f, " (priority {})", other - 1),
        }
    }
}

/// Prints the clock and the words that are not 0: the state, and for a word that no later commit
/// has settled the thread and the number of the step that wrote it, with the state before. Only the
/// thread's table says whether that step has committed.
///
/// `sb` is the valid superblock in `bytes`. `bytes` is the region's whole image from a
/// little-endian target. **Errors**: those of `out`. Any bytes are accepted.
pub fn kernel(sb: &Superblock, bytes: &[u8], out: &mut dyn Write) -> Result {
    let whole = threads_at(sb).is_some_and(|at| at <= bytes.len());
    match sb.params[param::UNIT] {
        2 if whole => print::<InOrder16>(sb, bytes, out),
        4 if whole => print::<InOrder32>(sb, bytes, out),
        _ => writeln!(out, "kernel: DAMAGED parameters, or not the whole region"),
    }
}

fn print<M: Model>(sb: &Superblock, bytes: &[u8], out: &mut dyn Write) -> Result {
    let (unit, words) = (M::Unit::BYTES, sb.params[param::WORDS] as usize);
    let number = |off: usize, len: usize| -> u64 {
        let b = bytes.get(off..off.saturating_add(len)).unwrap_or(&[]);
        b.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b))
    };
    // A cell's versions lie after the words of all cells.
    let version = |of: usize, count: usize, index: usize, which: u64, len: usize| {
        let at = of + Words::<M>::bytes(count);
        number(at + (2 * index + which as usize) * len, len)
    };
    let clock = Superblock::BYTES + store::words_bytes::<M>(words);
    writeln!(
        out,
        "kernel: {words} words, units of {unit} bytes, the clock shows {}",
        version(clock, 1, 0, number(clock, unit) & 1, 8)
    )?;
    let bits = if store::wide::<M>() { 8 } else { 1 };
    for index in 0..words {
        let word = number(Superblock::BYTES + index * unit, unit);
        let field = |low: u32, bits: u32| word >> low & ((1 << bits) - 1);
        let [after, before] = [field(0, bits), field(bits, bits)].map(|s| match bits {
            1 => version(Superblock::BYTES, words, index, s, 2),
            _ => s,
        });
        let of = Of::word(index, sb);
        let [after, before] = [after, before].map(|state| State(state, of));
        let thread = field(2 * bits, store::OWNER_BITS.into());
        match word >> (2 * bits + u32::from(store::OWNER_BITS)) {
            0 if after.0 == 0 => {}
            0 => writeln!(out, "  word {index}{of}: {after}")?,
            n => writeln!(
                out,
                "  word {index}{of}: {before}, then {after} by thread {thread}, number {n}"
            )?,
        }
    }
    Ok(())
}
