//! Planted bugs: they test the test suites. A suite must fail under each of them.
//!
//! A library marks a line with [`planted!`](crate::planted) and a name. The bug is active if the
//! environment variable `RELUME_PLANT` has this name. Only with the dev feature `sabotage`; without
//! it the macro is `false`.

/// Whether the bug with this name is active in this process.
#[cfg(feature = "sabotage")]
#[inline]
pub fn planted(name: &str) -> bool {
    use std::sync::OnceLock;
    static PLANTED: OnceLock<String> = OnceLock::new();
    PLANTED.get_or_init(|| std::env::var("RELUME_PLANT").unwrap_or_default()) == name
}

/// `true` if the named bug is active; constant `false` without the feature `sabotage` of `nvmem`.
#[cfg(feature = "sabotage")]
#[macro_export]
macro_rules! planted {
    ($name:literal) => {
        $crate::sabotage::planted($name)
    };
}

/// `true` if the named bug is active; constant `false` without the feature `sabotage` of `nvmem`.
#[cfg(not(feature = "sabotage"))]
#[macro_export]
macro_rules! planted {
    ($name:literal) => {
        false
    };
}
