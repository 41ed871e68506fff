//! Probes a superblock and replaces it.
#![cfg_attr(target_os = "none", no_std, no_main)]

size_probes::probe!({
    use nvmem::superblock::{self, State};
    const MINE: nvmem::Superblock = nvmem::Superblock {
        kind: *b"SIZE",
        version: 1,
        fingerprint: 1,
        params: [0; 8],
    };
    if let Some(mut r) = size_probes::region() {
        if let State::Ready(old) = superblock::probe(&r, &MINE) {
            let version = old.version.wrapping_add(1);
            superblock::replace(&mut r, &nvmem::Superblock { version, ..old });
        }
    }
});
