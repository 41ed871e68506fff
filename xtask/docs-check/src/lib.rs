//! Compiles and runs the Rust code blocks of the repository's documents:
//! `cargo test --doc -p docs-check`.

#[cfg(doctest)]
mod documents {
    include!(concat!(env!("OUT_DIR"), "/documents.rs"));
}
