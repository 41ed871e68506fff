//! The integration tests of `i2c-fram`.

mod bus;
mod chip;
mod parts;
