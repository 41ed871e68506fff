//! Hostile programs in safe code: each runs, and Miri sees nothing wrong in it. Those that must not compile are in `ui`.

#[path = "soundness/media.rs"]
mod media;
#[path = "soundness/region.rs"]
mod region;
#[path = "soundness/values.rs"]
mod values;
