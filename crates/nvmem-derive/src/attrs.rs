//! Parses the attributes `#[repr(..)]` and `#[persist(..)]`.

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
        let mut o = Options {
            krate: parse_quote!(::nvmem),
            slots: None,
        };
        for attr in attrs.iter().filter(|a| a.path().is_ident("persist")) {
            attr.parse_nested_meta(|meta| {
                if meta.path.is_ident("crate") {
                    o.krate = meta.value()?.call(Path::parse_mod_style)?;
                } else if meta.path.is_ident("slots") {
                    o.slots = Some(meta.value()?.parse()?);
                } else {
                    return Err(meta.error(
                        "unknown option: the options are `#[persist(crate = path)]` for the path of `nvmem`, and `#[persist(slots = \
                         Name)]` for the name of the struct of field slots",
                    ));
                }
                Ok(())
            })?;
        }
        Ok(o)
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
