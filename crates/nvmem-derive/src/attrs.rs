//! Parses the attributes `#[repr(..)]` and `#[persist(..)]`.

use crate::manifest::{self, Found};
use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Ident, LitInt, Path, Result, parse_quote};

/// The content of `#[repr(..)]`.
#[derive(Default)]
pub struct Repr {
    pub c: bool,
    pub transparent: bool,
    /// The integer type of the tag.
    pub int: Option<Ident>,
    /// The span of the first item, for messages.
    pub span: Option<Span>,
}

/// Tag types of fixed width.
const FIXED: [&str; 8] = ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"];

impl Repr {
    pub fn new(attrs: &[Attribute]) -> Result<Self> {
        let mut repr = Repr::default();
        for attr in attrs.iter().filter(|a| a.path().is_ident("repr")) {
            attr.parse_nested_meta(|meta| {
                repr.span.get_or_insert(meta.path.span());
                let Some(ident) = meta.path.get_ident() else {
                    return Ok(());
                };
                match ident.to_string().as_str() {
                    "C" => repr.c = true,
                    "transparent" => repr.transparent = true,
                    "packed" => {
                        return Err(meta.error(
                            "persistent data cannot be packed, because a borrowed field would be misaligned: write `#[repr(C)]` and \
                             order the fields from large to small, so that there is no padding between them",
                        ));
                    }
                    "align" => {
                        let content;
                        syn::parenthesized!(content in meta.input);
                        let n: LitInt = content.parse()?;
                        if n.base10_parse::<u64>()? > 8 {
                            return Err(Error::new(
                                n.span(),
                                "persistent memory is aligned to 8 bytes: `#[repr(align(8))]` is the largest alignment",
                            ));
                        }
                    }
                    n if FIXED.contains(&n) => repr.int = Some(ident.clone()),
                    "usize" | "isize" => {
                        return Err(meta.error(
                            "the width of this tag differs between targets: write `#[repr(u8)]` or another integer of fixed \
                             width",
                        ));
                    }
                    "u128" | "i128" => {
                        return Err(meta.error("a tag has at most 64 bits: write `#[repr(u8)]`"));
                    }
                    _ => {}
                }
                Ok(())
            })?;
        }
        Ok(repr)
    }
}

/// The content of `#[persist(..)]`.
pub struct Options {
    /// `crate = path`: the path of `nvmem`.
    pub krate: Path,
    /// `slots = Name`: the name of the struct of field slots.
    pub slots: Option<Ident>,
}

impl Options {
    pub fn new(attrs: &[Attribute]) -> Result<Self> {
        let (mut krate, mut slots) = (None, None);
        for attr in attrs.iter().filter(|a| a.path().is_ident("persist")) {
            attr.parse_nested_meta(|meta| {
                if meta.path.is_ident("crate") {
                    krate = Some(meta.value()?.call(Path::parse_mod_style)?);
                } else if meta.path.is_ident("slots") {
                    slots = Some(meta.value()?.parse()?);
                } else {
                    return Err(meta.error(
                        "unknown option: the options are `#[persist(crate = path)]` for the path of `nvmem`, and `#[persist(slots = \
                         Name)]` for the name of the struct of field slots",
                    ));
                }
                Ok(())
            })?;
        }
        let krate = match krate {
            Some(krate) => krate,
            None => path(
                manifest::nvmem(),
                "this derive needs the crate `nvmem`, and Cargo.toml names neither it nor a crate that re-exports it: add \
                 `nvmem = \"0.1\"` to `[dependencies]`, or name its path with `#[persist(crate = path)]`",
            )?,
        };
        Ok(Options { krate, slots })
    }

    /// Refuses the attribute on fields and variants.
    pub fn none(attrs: &[Attribute]) -> Result<()> {
        match attrs.iter().find(|a| a.path().is_ident("persist")) {
            Some(a) => Err(Error::new(
                a.span(),
                "`#[persist(..)]` belongs on the type, not on a field or variant",
            )),
            None => Ok(()),
        }
    }
}

/// The path of the crate that was found in the manifest. **Errors**: `otherwise`, if none was.
pub fn path(found: std::result::Result<Found, ()>, otherwise: &str) -> Result<Path> {
    let Found { name, facade } = found.map_err(|()| Error::new(Span::call_site(), otherwise))?;
    let name = Ident::new(&name, Span::call_site());
    Ok(if facade {
        parse_quote!(::#name::nvmem)
    } else {
        parse_quote!(::#name)
    })
}
