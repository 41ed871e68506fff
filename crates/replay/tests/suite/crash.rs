//! Programs that use each operation, cut at every store and at every store of the recovery, on each
//! mapped medium.

macro_rules! medium {
    (in_order_32) => {
        nv_replay::nvmem::InOrder32
    };
    (in_order_16) => {
        nv_replay::nvmem::InOrder16
    };
    (buffered_32) => {
        nv_replay::nvmem::Buffered32
    };
}

/// Tests that run a function on each medium. Each is a copy of the runtime, which takes long to
/// build, so those after the first one need the feature `media`.
macro_rules! on_each_medium {
    ($run:ident: in_order_32) => {
        on_each_medium!($run: in_order_32, buffered_32, in_order_16);
    };
    ($run:ident: buffered_32) => {
        on_each_medium!($run: buffered_32, in_order_32, in_order_16);
    };
    ($run:ident: $first:ident, $($more:ident),+) => {
        #[test]
        fn $first() {
            $run::<medium!($first)>()
        }
        $(
            #[test]
            #[cfg(feature = "media")]
            fn $more() {
                $run::<medium!($more)>()
            }
        )+
    };
}

mod every;
mod joined;
pub mod kernel;
mod outlets;
mod owners;
pub mod programs;
mod tokens;
mod turns;
mod updated;
mod wraps;
