//! Images under power cuts, two deep: on mapped models, byte media, 16-byte words, and on flash
//! whose torn words read differently each time.

mod archive;
mod compare;
#[path = "../support/counting.rs"]
mod counting;
mod log;
mod logged;
mod magic;
mod media;
mod support;
#[path = "../../../powerfail/tests/support/turns.rs"]
mod turns;
