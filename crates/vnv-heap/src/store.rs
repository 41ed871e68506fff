//! The format on the medium. Knows no RAM buffer and no types.
