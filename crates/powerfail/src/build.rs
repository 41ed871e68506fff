//! How cargo built this test program. A failure line from a build with other features replays other
//! code.

use nvmem::planted;
use std::path::Path;
use std::sync::OnceLock;

/// What cargo stores about a build beside its programs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Build {
    /// The enabled features, without `default`.
    pub(crate) features: Vec<String>,
    /// The package has default features, and they are disabled.
    pub(crate) no_default: bool,
    release: bool,
}

impl Build {
    /// The build of this program; `None` if cargo's files are not found, as under Miri or on
    /// another machine.
    pub(crate) fn this() -> Option<&'static Build> {
        static THIS: OnceLock<Option<Build>> = OnceLock::new();
        THIS.get_or_init(|| {
            if cfg!(miri) {
                return None;
            }
            Build::beside(&std::env::current_exe().ok()?)
        })
        .as_ref()
    }

    /// `target/debug/deps/NAME-HASH` is described by
    /// `target/debug/.fingerprint/PACKAGE-HASH/*.json`.
    fn beside(program: &Path) -> Option<Build> {
        let (_, hash) = program.file_stem()?.to_str()?.rsplit_once('-')?;
        let profile = program.parent()?.parent()?;
        let ends = format!("-{hash}");
        for dir in std::fs::read_dir(profile.join(".fingerprint")).ok()? {
            let dir = dir.ok()?;
            if !dir.file_name().to_str()?.ends_with(&ends) {
                continue;
            }
            for file in std::fs::read_dir(dir.path()).ok()? {
                let file = file.ok()?.path();
                if file.extension().is_some_and(|e| e == "json") {
                    let release = profile.file_name()? == "release";
                    return Build::parse(&std::fs::read_to_string(file).ok()?, release);
                }
            }
        }
        None
    }

    fn parse(notes: &str, release: bool) -> Option<Build> {
        let mut features = list(notes, "features")?;
        let declared = list(notes, "declared_features").unwrap_or_default();
        let has = |l: &[String]| l.iter().any(|f| f == "default");
        let no_default = has(&declared) && !has(&features);
        features.retain(|f| f != "default");
        Some(Build {
            features,
            no_default,
            release,
        })
    }

    /// The features as text for a line; empty for a default build.
    pub(crate) fn text(&self) -> String {
        let default = self.no_default.then_some("!default");
        let names: Vec<&str> = default
            .into_iter()
            .chain(self.features.iter().map(String::as_str))
            .collect();
        names.join(",")
    }

    fn flags(&self) -> String {
        let mut s = String::new();
        if self.release {
            s += "--release ";
        }
        if self.no_default {
            s += "--no-default-features ";
        }
        if !self.features.is_empty() {
            s += &format!("--features {} ", self.features.join(","));
        }
        s
    }
}

/// The strings of the list `key`, which the file stores as text.
fn list(notes: &str, key: &str) -> Option<Vec<String>> {
    let from = notes.split_once(&format!("\"{key}\":\"["))?.1;
    let names = from.split_once("]\"")?.0.split(',');
    Some(
        names
            .map(|n| n.trim_matches([' ', '\\', '"']).to_owned())
            .filter(|n| !n.is_empty())
            .collect(),
    )
}

/// The end of a line: the features of this program.
pub(crate) fn suffix() -> String {
    match Build::this().map(Build::text) {
        Some(t) if !t.is_empty() => format!("@{t}"),
        _ => String::new(),
    }
}

/// The command that replays a line with this build's features.
pub(crate) fn command(line: &str, test: &str) -> String {
    let flags = Build::this().map(Build::flags).unwrap_or_default();
    format!("replay this:  POWERFAIL='{line}' cargo test {flags}{test}")
}

/// The reason why a line cannot be replayed here, if it comes from a build with other features.
pub(crate) fn differs(line: &str) -> Option<String> {
    let here = Build::this()?.text();
    let said = |f: &str| match f {
        "" => "no features but the default ones".to_owned(),
        f => format!("the features {f}"),
    };
    let same = here == line || planted!("powerfail/other-features-ignored");
    (!same).then(|| {
        format!(
            "the line is of a test with {}, and this one has {}: use the command that was printed with it",
            said(line),
            said(&here)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::Build;

    #[test]
    fn features_are_those_that_cargo_notes() {
        let notes = r#"{"rustc":7,"features":"[\"default\", \"a\", \"b-c\"]","declared_features":"[\"a\", \"default\"]","x":1}"#;
        let b = Build::parse(notes, false).unwrap();
        assert_eq!(
            (b.text(), b.flags()),
            ("a,b-c".into(), "--features a,b-c ".into())
        );
        let b = Build::parse(&notes.replacen(r#"\"default\", "#, "", 1), true).unwrap();
        assert_eq!(b.text(), "!default,a,b-c");
        assert_eq!(
            b.flags(),
            "--release --no-default-features --features a,b-c "
        );
        let none = Build::parse(r#"{"features":"[]","declared_features":"[]"}"#, false).unwrap();
        assert_eq!((none.text(), none.flags()), (String::new(), String::new()));
        assert_eq!(Build::parse("{}", false), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "looks at files")]
    fn the_notes_of_this_program_are_found() {
        let features = &Build::this().expect("cargo built this").features;
        assert_eq!(
            features.iter().any(|f| f == "sabotage"),
            cfg!(feature = "sabotage")
        );
    }
}
