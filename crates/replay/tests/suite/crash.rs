//! Programs that use each operation, cut at every store and at every store of the recovery, on each
//! mapped medium.

/// Tests that run a function on each medium.
macro_rules! on_each_medium {
    ($run:ident) => {
        #[test]
        fn in_order_16() {
            $run::<nv_replay::nvmem::InOrder16>()
        }
        #[test]
        fn in_order_32() {
            $run::<nv_replay::nvmem::InOrder32>()
        }
        #[test]
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
