//! Images under power cuts, two deep: on mapped models, byte media, 16-byte words, and on flash
//! whose torn words read differently each time.

mod archive;
mod compare;
mod log;
mod logged;
mod magic;
mod media;
mod support;

// The evaluation of checkpoints uses `logged` and `support`, too, and has these beside them.
use crate::support::{counting, nor};
