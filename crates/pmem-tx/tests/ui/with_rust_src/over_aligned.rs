//! More than 8 bytes of alignment, which no block has.

include!("../support/over_aligned.rs");
