//! The integration tests of `vnv-heap`, with and without power cuts.

// Its macros are used below.
#[macro_use]
mod support;

mod basic;
mod collections;
mod crash;
mod damage;
#[path = "../../../powerfail/tests/support/faulty.rs"]
mod faulty;
mod fields;
mod free;
mod generated;
mod hostile;
mod in_place;
mod inspect;
mod interrupt;
mod nor;
mod open_reads;
mod others;
mod owning;
#[path = "../../../powerfail/tests/support/runs.rs"]
mod runs;
mod scoped;
mod soundness;
mod statics;
mod values;
mod worst;
