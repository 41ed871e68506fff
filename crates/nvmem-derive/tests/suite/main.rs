//! The integration tests of `nvmem-derive`.

mod consumers;
