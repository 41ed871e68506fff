//! Programs outside of this workspace that derive without an option: the derive finds `nvmem` in
//! their manifest. Cargo builds them offline, with this workspace's versions.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A program: its dependencies, and the path of `nvmem` in it.
struct Program {
    name: &'static str,
    dependencies: &'static str,
    nvmem: &'static str,
    rest: &'static str,
}

/// `CRATES` stands for the folder of the crates.
const PROGRAMS: &[Program] = &[
    Program {
        name: "direct",
        dependencies: "nvmem = { path = 'CRATES/nvmem' }",
        nvmem: "nvmem",
        rest: "",
    },
    Program {
        name: "renamed",
        dependencies: "my-memory = { package = 'nvmem', path = 'CRATES/nvmem' }",
        nvmem: "my_memory",
        rest: "",
    },
    Program {
        name: "named-by-the-workspace",
        dependencies: "memory.workspace = true",
        nvmem: "memory",
        rest: "",
    },
    Program {
        name: "transactions",
        dependencies: "pmem-tx = { path = 'CRATES/pmem-tx' }",
        nvmem: "pmem_tx::nvmem",
        rest: "
            use pmem_tx::PBox;
            #[derive(Persist)]
            #[repr(C)]
            pub struct Node<'p> { pub value: u32, pub next: Option<PBox<'p, Node<'p>>> }
        ",
    },
    Program {
        name: "replay",
        dependencies: "nv-replay = { path = 'CRATES/replay' }",
        nvmem: "nv_replay::nvmem",
        rest: "",
    },
    Program {
        name: "lists",
        dependencies: "nvlist = { path = 'CRATES/nvlist' }",
        nvmem: "nvlist::nvmem",
        rest: "",
    },
    Program {
        name: "heap",
        dependencies: "vnv-heap = { path = 'CRATES/vnv-heap' }",
        nvmem: "vnv_heap::nvmem",
        rest: "
            #[derive(Persist, vnv_heap::Fields)]
            #[repr(C)]
            pub struct Settings { pub volume: u32 }
        ",
    },
    Program {
        name: "renamed-heap",
        dependencies: "heap = { package = 'vnv-heap', path = 'CRATES/vnv-heap' }",
        nvmem: "heap::nvmem",
        rest: "
            #[derive(Persist, heap::Fields)]
            #[repr(C)]
            pub struct Settings { pub volume: u32 }
        ",
    },
    Program {
        name: "images",
        dependencies: "[dependencies.images]\npackage = 'checkpoint'\npath = 'CRATES/checkpoint'",
        nvmem: "images::nvmem",
        rest: "",
    },
    // It is used in the tests only, and `nvmem` in all of the program.
    Program {
        name: "with-tests",
        dependencies: "pmem-tx = { path = 'CRATES/pmem-tx' }\n[dev-dependencies]\nnvmem = { path = 'CRATES/nvmem' }",
        nvmem: "pmem_tx::nvmem",
        rest: "",
    },
];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn write(path: PathBuf, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Writes a workspace of these programs. Returns what Cargo prints when it fails to check them.
fn check(workspace: &str, programs: &[Program]) -> Result<(), String> {
    let root = folder(workspace);
    let _ = std::fs::remove_dir_all(&root);
    let crates = crates().display().to_string();
    let members: Vec<&str> = programs.iter().map(|p| p.name).collect();
    write(
        root.join("Cargo.toml"),
        &format!(
            "[workspace]\nresolver = '3'\nmembers = {members:?}\n[workspace.dependencies]\n\
             memory = {{ package = 'nvmem', path = '{crates}/nvmem' }}\n"
        ),
    );
    for p in programs {
        let dependencies = p.dependencies.replace("CRATES", &crates);
        write(
            root.join(p.name).join("Cargo.toml"),
            &format!(
                "[package]\nname = '{}'\nversion = '0.0.0'\nedition = '2024'\n[dependencies]\n{dependencies}\n",
                p.name
            ),
        );
        write(
            root.join(p.name).join("src/lib.rs"),
            &format!(
                "#![no_std]\nuse {}::Persist;\n#[derive(Persist)]\n#[repr(C)]\npub struct Pair(pub u32, pub [u16; 2]);\n\
                 #[derive(Persist)]\n#[repr(u8)]\npub enum Mode {{ Off, On(u32) }}\n{}\n",
                p.nvmem, p.rest
            ),
        );
    }
    std::fs::copy(crates_lock(), root.join("Cargo.lock")).unwrap();
    let output = Command::new(env!("CARGO"))
        .args([
            "check",
            "--workspace",
            "--offline",
            "--quiet",
            "--target-dir",
        ])
        .arg(folder("target"))
        .current_dir(&root)
        .output()
        .unwrap();
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn crates_lock() -> PathBuf {
    crates().join("../Cargo.lock")
}

#[test]
fn programs_derive_without_an_option() {
    if let Err(message) = check("consumers", PROGRAMS) {
        panic!("{message}");
    }
}

/// A program that has no such dependency is told which line to add. It gets the derive from a
/// library that hides where `nvmem` is.
#[test]
fn a_program_without_any_is_told_the_line_to_add() {
    let programs = [Program {
        name: "without",
        dependencies: "nvmem-derive = { path = 'CRATES/nvmem-derive' }",
        nvmem: "nvmem_derive",
        rest: "#[derive(nvmem_derive::Fields)]\n#[repr(C)]\npub struct Settings { pub volume: u32 }",
    }];
    let message = check("without", &programs).unwrap_err();
    for line in [
        "add `nvmem = \"0.1\"` to `[dependencies]`",
        "#[persist(crate = path)]",
        "add `vnv-heap = \"0.1\"` to `[dependencies]`",
    ] {
        assert!(message.contains(line), "{message}");
    }
}
