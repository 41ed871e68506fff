//! Planted bugs: a suite that stays green under one of them proves nothing.
//!
//! A library marks a place with [`planted!`](crate::planted); the place is wrong when the environment variable
//! `RELUME_PLANT` has its name. Only with the dev feature `sabotage`; without it the macro is `false`.

/// Whether the bug of this name is planted in this process.
#[cfg(feature = "sabotage")]
pub fn planted(name: &str) -> bool {
    use std::sync::OnceLock;
    static PLANTED: OnceLock<String> = OnceLock::new();
    PLANTED.get_or_init(|| std::env::var("RELUME_PLANT").unwrap_or_default()) == name
}

/// `true` when the named bug is planted, and constant `false` without the feature `sabotage` of `nvmem`.
#[cfg(feature = "sabotage")]
#[macro_export]
macro_rules! planted {
    ($name:literal) => {
        $crate::sabotage::planted($name)
    };
}

/// `true` when the named bug is planted, and constant `false` without the feature `sabotage` of `nvmem`.
#[cfg(not(feature = "sabotage"))]
#[macro_export]
macro_rules! planted {
    ($name:literal) => {
        false
    };
}
