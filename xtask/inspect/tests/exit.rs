//! The exit code: other than 0 for what is no image, with a message that says why.

use std::mem::MaybeUninit;
use std::process::Command;

/// Runs the program on a file with these bytes. Whether it succeeds, and its message.
fn inspect(name: &str, bytes: Option<&[u8]>) -> (bool, String) {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    match bytes {
        Some(bytes) => std::fs::write(&path, bytes).unwrap(),
        None => _ = std::fs::remove_file(&path),
    }
    let mut program = Command::new(env!("CARGO_BIN_EXE_relume-inspect"));
    let done = program.arg(&path).output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    (done.status.success(), said)
}

#[test]
fn no_image_is_an_error() {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let noise = std::iter::repeat_with(|| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 24) as u8
    });
    let noise: Vec<u8> = noise.take(64 * 1024).collect();
    for (name, bytes, expected) in [
        ("noise", Some(&noise[..]), "no image"),
        ("text", Some(b"# Not an image\n"), "no image"),
        ("empty", Some(&[]), "no bytes"),
        ("zeroed", Some(&[0; 4096]), "blank"),
        ("erased", Some(&[0xFF; 4096]), "blank"),
        ("missing", None, "missing"),
    ] {
        let (succeeds, said) = inspect(name, bytes);
        assert!(!succeeds && said.starts_with("error: "), "{name}: {said}");
        assert!(said.contains(expected), "{name}: {said}");
    }
}

#[test]
fn a_sound_image_is_no_error() {
    use nvmem::{ram::RamFram, record::Record};
    let r = Record::<u32, _>::open(RamFram::<128>::filled(0), 0..128, 7).unwrap();
    let (succeeds, said) = inspect("record", Some(r.into_medium().bytes()));
    assert!(succeeds && said.is_empty(), "{said}");
}

#[test]
fn a_mirror_without_any_header_is_no_image() {
    use nv_mirror::{Config, Mirror};
    let (mut fram, mut memory) = (
        nvmem::ram::RamFram::<4096>::filled(0),
        [MaybeUninit::uninit(); 64],
    );
    let open = Mirror::open::<nvmem::InOrder32>(&mut fram, 0..4096, &Config::DEFAULT, &mut memory);
    let (mut mirror, mut region) = open.unwrap();
    // SAFETY: inside of the region, aligned, and nothing is lent.
    unsafe { region.store(0, 7_u32) };
    mirror.durable(&mut region).unwrap();
    let (succeeds, said) = inspect("mirror", Some(fram.bytes()));
    assert!(succeeds && said.is_empty(), "{said}");
    // The header of its only segment.
    fram.bytes_mut()[3 * 1024 + 5] ^= 1;
    let (succeeds, said) = inspect("no-mirror", Some(fram.bytes()));
    assert!(!succeeds && said.contains("no image"), "{said}");
}
