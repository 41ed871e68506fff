//! `nvmem` under another path, and names that generated code must not use.

/// A crate that re-exports `nvmem`.
pub mod library {
    pub use nvmem as memory;
}

mod user {
    use super::library::memory::Persist;

    // Names that generated code might pick up by mistake.
    type Result = ();
    type Option = ();
    mod nvmem {}
    mod core {}

    #[derive(Persist)]
    #[persist(crate = crate::derive::facade::library::memory, slots = SettingsFields)]
    #[repr(C)]
    pub struct Settings<'brand, T, const N: usize> {
        pub d: [T; N],
        pub p: super::super::handle::PBox<'brand, T>,
    }

    struct SettingsSlots;

    #[derive(Persist)]
    #[persist(crate = crate::derive::facade::library::memory)]
    #[repr(u8)]
    pub enum Mode {
        Result,
        Option(u8),
    }
}

#[test]
fn it_is_found_there() {
    assert!(::nvmem::fingerprint::<user::Settings<'_, user::Mode, 3>>() != 0);
}

#[test]
fn inside_a_function() {
    const LEN: usize = 3;
    #[derive(nvmem::Persist, Clone, Copy)]
    #[repr(C)]
    struct Local {
        a: [u8; LEN],
    }
    let mut buf = [::core::mem::MaybeUninit::uninit(); LEN];
    let b = nvmem::persist::to_bytes(Local { a: [1, 2, 3] }, &mut buf);
    assert_eq!(b, Some(&[1, 2, 3][..]));
}
