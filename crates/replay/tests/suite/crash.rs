//! Programs that use each operation, cut at every store and at every store of the recovery, on each
//! mapped medium.

/// Tests that run a function on each medium. Each is a copy of the runtime, which takes long to
/// build: `cargo test -p nv-replay` has one, and `cargo xtask test`, which has the feature
/// `sabotage`, has all.
macro_rules! on_each_medium {
    ($run:ident) => {
        #[test]
        fn in_order_32() {
            $run::<nv_replay::nvmem::InOrder32>()
        }
        #[test]
        #[cfg(feature = "sabotage")]
        fn in_order_16() {
            $run::<nv_replay::nvmem::InOrder16>()
        }
        #[test]
        #[cfg(feature = "sabotage")]
        fn buffered_32() {
            $run::<nv_replay::nvmem::Buffered32>()
        }
    };
}

mod every;
mod joined;
mod outlets;
pub mod programs;
mod tokens;
mod turns;
mod updated;
mod wraps;
