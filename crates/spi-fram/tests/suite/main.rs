//! The integration tests of `spi-fram`.

mod bus;
mod chip;
mod heap;
mod parts;
mod shared_bus;
