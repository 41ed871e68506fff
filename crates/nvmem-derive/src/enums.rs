//! Enums, in the layouts that the Rust reference documents:
//!
//! ```text
//! repr(u8)     union of repr(C) structs that begin with the tag
//!              | tag | gap | field 0 | gap | field 1 | tail |
//! repr(C, u8)  repr(C) struct of the tag and a union of repr(C) structs
//!              | tag | gap | union: field 0 | gap | field 1 | tail |
//! ```
//!
//! Gaps, the tail and the bytes that a variant does not use are padding.

use crate::Functions;
use crate::input::{Field, Input, Tag, Variant};
use crate::names::local;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};

pub fn body(input: &Input, tag: &Tag, variants: &[Variant]) -> Functions {
    let krate = &input.krate;
    let (d, p, v) = (local("d"), local("p"), local("v"));
    let (at, end, begin) = (local("at"), local("end"), local("start"));
    let (gap, padded, stored) = (local("gap"), local("is_padded"), local("stored"));
    let int = &tag.int;
    let read = format_ident!("read_{int}");
    let size_of_tag = quote!(#d.size_of_tag(#d.#int(0)));
    let name = input.name();
    let tags = tags(int, variants);
    let ids: Vec<_> = (0..variants.len()).map(tag_of).collect();
    let start = start(tag, variants, &size_of_tag);

    let offsets = variants.iter().enumerate().map(|(v, variant)| {
        let fields = variant.fields.iter().enumerate().map(|(i, f)| {
            let (id, next_offset) = (offset_of(v, i), next_offset(f));
            quote_spanned!(f.span=> #next_offset let #id = #at;)
        });
        quote! {
            let mut #end = #begin;
            #( #fields )*
        }
    });
    let members = variants.iter().enumerate().map(|(v, variant)| {
        let (id, name) = (tag_of(v), &variant.name);
        let fields = variant.fields.iter().enumerate().map(|(i, f)| {
            let (Field { name, ty, .. }, id) = (f, offset_of(v, i));
            quote_spanned! {f.span=>
                #krate::__derived::Member::Field {
                    name: #name,
                    offset: #id,
                    of: <#ty as #krate::Persist>::LAYOUT,
                },
            }
        });
        quote! {
            #krate::__derived::Member::Variant {
                name: #name,
                tag: #id as ::core::primitive::i128,
            },
            #( #fields )*
        }
    });
    let checks = variants.iter().zip(&ids).map(|(variant, id)| {
        let fields = variant.fields.iter().map(|f| {
            let (ty, next_offset) = (&f.ty, next_offset(f));
            quote_spanned! {f.span=>
                #next_offset
                <#ty as #krate::Persist>::check(#p.add(#at), #v)?;
            }
        });
        quote! {
            if #stored == #id {
                let mut #end = #begin;
                #( #fields )*
            } else
        }
    });
    let clear_paddings = variants.iter().zip(&ids).map(|(variant, id)| {
        let fields = variant.fields.iter().map(|f| {
            let (ty, next_offset) = (&f.ty, next_offset(f));
            quote_spanned! {f.span=>
                let #gap = #end;
                #next_offset
                #d.zero(#p, #gap, #at);
                <#ty as #krate::Persist>::clear_padding(#p.add(#at));
            }
        });
        quote! {
            if #stored == #id {
                let mut #end = #begin;
                #( #fields )*
                #d.zero(#p, #end, #d.size_of::<Self>());
            } else
        }
    });
    let gaps = variants.iter().map(|variant| {
        let fields = variant.fields.iter().map(|f| {
            let (ty, next_offset) = (&f.ty, next_offset(f));
            quote! {
                let #gap = #end;
                #next_offset
                #padded |= #gap != #at || <#ty as #krate::Persist>::PADDED;
            }
        });
        quote! {
            let mut #end = #begin;
            #( #fields )*
            #padded |= #end != #d.size_of::<Self>();
        }
    });
    Functions {
        padded: quote! {
            #start
            let mut #padded = #begin != #size_of_tag;
            #( #gaps )*
            #padded
        },
        offsets: quote! {
            #tags
            #start
            #( #offsets )*
        },
        members: quote! {
            #krate::__derived::Member::Field {
                name: "tag",
                offset: 0,
                of: <::core::primitive::#int as #krate::Persist>::LAYOUT,
            },
            #( #members )*
        },
        check: quote! {
            #tags
            #start
            let #stored = #d.#read(#p);
            #( #checks )* {
                return #d.invalid(#name);
            }
            #d.valid()
        },
        clear_padding: quote! {
            #tags
            #start
            #d.zero(#p, #size_of_tag, #begin);
            let #stored = #d.#read(#p);
            #( #clear_paddings )* {}
        },
    }
}

/// The variable with the tag of a variant, bound by `tags`.
fn tag_of(i: usize) -> Ident {
    local(&format!("tag_{i}"))
}

/// The variable with the offset of a field of a variant, bound by `offsets`.
fn offset_of(variant: usize, field: usize) -> Ident {
    local(&format!("at_{variant}_{field}"))
}

/// Binds the discriminants: as written, or one more than the previous one. Each user expression is
/// a `const` block of its own, so that it cannot see generated names and the compiler evaluates it
/// as for the enum.
fn tags(int: &Ident, variants: &[Variant]) -> TokenStream {
    let d = local("d");
    let tags = variants.iter().enumerate().map(|(i, v)| {
        let id = tag_of(i);
        let value = match (&v.discriminant, i.checked_sub(1).map(tag_of)) {
            (Some(e), _) => quote!(const { #e }),
            (None, Some(before)) => quote!(#before + 1),
            (None, None) => quote!(0),
        };
        quote_spanned!(v.span=> let #id = #d.#int(#value);)
    });
    quote!( #( #tags )* )
}

/// Binds the offset at which the fields of each variant begin.
fn start(tag: &Tag, variants: &[Variant], size_of_tag: &TokenStream) -> TokenStream {
    let (d, begin, align) = (local("d"), local("start"), local("align"));
    if !tag.c {
        return quote!(let #begin = #size_of_tag;);
    }
    let types = variants.iter().flat_map(|v| &v.fields).map(|f| &f.ty);
    quote! {
        let mut #align = 1usize;
        #( if #d.align_of::<#types>() > #align { #align = #d.align_of::<#types>(); } )*
        let #begin = #d.next_offset(#size_of_tag, #align);
    }
}

/// Binds the offset of the next field and advances the end.
fn next_offset(f: &Field) -> TokenStream {
    let ty = &f.ty;
    let (d, at, end) = (local("d"), local("at"), local("end"));
    quote! {
        let #at = #d.next_offset(#end, #d.align_of::<#ty>());
        #end = #at + #d.size_of::<#ty>();
    }
}
