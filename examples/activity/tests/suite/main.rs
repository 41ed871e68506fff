//! The integration tests of the example.

mod accuracy;
mod csv;
mod demo;
mod machine;
#[path = "../../src/host/recordings.rs"]
mod recordings;
