//! Small programs on every machine.
