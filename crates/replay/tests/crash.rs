//! Programs that use each operation, cut at every store and at every store of the recovery, on each
//! mapped medium.

mod crash {
    mod every;
    mod joined;
    mod outlets;
    pub mod programs;
    mod tokens;
    mod turns;
    mod updates;
    mod wraps;
}
