//! Hostile programs in safe code: each runs without undefined behaviour under Miri. Programs that
//! must not compile are in `ui`.

#[path = "soundness/media.rs"]
mod media;
#[path = "soundness/region.rs"]
mod region;
#[path = "soundness/values.rs"]
mod values;
