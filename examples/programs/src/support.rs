//! What the programs share: their inputs, a hash, and the machine.

#[cfg(all(machine, not(target_os = "none")))]
#[path = "host.rs"]
mod on;
#[cfg(all(machine, target_os = "none"))]
#[path = "bare.rs"]
mod on;

#[cfg(machine)]
pub use on::*;

/// A unit of the memory.
#[cfg(machine)]
pub type Unit = <Fram as nv_rtos::nvmem::Model>::Unit;

/// Bits of a sequence number: as many as there may be.
pub const SEQ_BITS: u8 = if cfg!(target_pointer_width = "16") {
    8
} else {
    13
};

/// Bytes of memory that each program gets.
pub const BYTES: usize = 4096;

static SEED: u32 = 0x9E37_79B9;

/// How many rounds a program makes: all, unless the host asks for another number.
#[inline]
pub fn rounds(all: u32) -> u32 {
    #[cfg(all(machine, not(target_os = "none")))]
    let all = on::asked(all);
    all
}

/// A thread of `etl` has done its work in a turn, and commits it next: for who watches on a host.
#[inline]
pub fn done(thread: usize, turn: u32) {
    #[cfg(all(machine, not(target_os = "none")))]
    on::tell(thread, turn);
    let _ = (thread, turn);
}

/// The `i`-th input. It is read through volatile memory, so the compiler does not know it.
#[inline]
pub fn input(i: u32) -> u32 {
    // SAFETY: a static.
    let seed = unsafe { (&raw const SEED).read_volatile() };
    seed.wrapping_mul(i + 1) >> 2
}

/// What a sensor of `etl` reads in a round: 0 to 127, of which those above 120 are out of range; or
/// what the host has recorded.
#[inline]
pub fn reading(round: u32, sensor: u32) -> u32 {
    #[cfg(all(machine, not(target_os = "none")))]
    if let Some(recorded) = on::recorded(2 * round + sensor) {
        return recorded;
    }
    input(2 * round + sensor) >> 23
}

/// A reference, read through volatile memory: the compiler does not know what is there.
#[inline]
pub fn hidden<T>(value: &'static T) -> &'static T {
    // SAFETY: a variable.
    unsafe { (&raw const value).read_volatile() }
}

/// One more value in a hash.
#[inline]
pub fn mix(hash: u32, value: u32) -> u32 {
    hash.rotate_left(5) ^ value
}
