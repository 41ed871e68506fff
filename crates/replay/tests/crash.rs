//! Every cut, and every cut of the recovery, of programs that use each operation, on each mapped medium.

mod crash {
    mod every;
    mod joined;
    mod outlets;
    pub mod programs;
    mod updates;
    mod wraps;
}
