//! Hostile programs in safe code: each runs without undefined behaviour under Miri. Programs that
//! must not compile are in `ui`.

mod media;
mod region;
mod values;
