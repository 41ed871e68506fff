//! Enums: the layout that is documented for `#[repr(u8)]` (a union of `repr(C)` structs, each beginning with the tag) and
//! for `#[repr(C, u8)]` (a `repr(C)` struct of the tag and a union of `repr(C)` structs).

use crate::Functions;
use crate::input::{Field, Input, Tag, Variant};
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};

pub fn body(input: &Input, tag: &Tag, variants: &[Variant]) -> Functions {
    let krate = &input.krate;
    let int = &tag.int;
    let int = quote!(::core::primitive::#int);
    let name = input.name();
    let consts = tag_consts(&int, variants);
    let ids: Vec<_> = (0..variants.len()).map(tag_const).collect();
    let start = start(tag, variants, &int, input);
    let names = variants.iter().map(|v| &v.name);

    let offsets = variants.iter().enumerate().map(|(v, variant)| {
        let fields = variant.fields.iter().enumerate().map(|(i, f)| {
            let (id, place) = (offset_of(v, i), place(f, input));
            quote_spanned!(f.span=> #place let #id = __at;)
        });
        quote! {
            let mut __end = __start;
            #( #fields )*
        }
    });
    let parts = variants
        .iter()
        .zip(names)
        .enumerate()
        .map(|(v, (variant, name))| {
            let id = tag_const(v);
            let fields = variant.fields.iter().enumerate().map(|(i, f)| {
                let (Field { name, ty, .. }, id) = (f, offset_of(v, i));
                quote_spanned! {f.span=>
                    #krate::__derived::Part::Field {
                        name: #name,
                        offset: #id,
                        of: <#ty as #krate::Persist>::LAYOUT,
                    },
                }
            });
            quote! {
                #krate::__derived::Part::Variant {
                    name: #name,
                    tag: #id as ::core::primitive::i128,
                },
                #( #fields )*
            }
        });
    let check = variants.iter().zip(&ids).map(|(v, id)| {
        let fields = v.fields.iter().map(|f| {
            let (ty, place) = (&f.ty, place(f, input));
            quote_spanned! {f.span=>
                #place
                <#ty as #krate::Persist>::check(__p.add(__at), __v)?;
            }
        });
        quote! {
            #id => {
                let mut __end = __start;
                #( #fields )*
            }
        }
    });
    let clear_padding = variants.iter().zip(&ids).map(|(v, id)| {
        let fields = v.fields.iter().map(|f| {
            let (ty, place) = (&f.ty, place(f, input));
            quote_spanned! {f.span=>
                let __gap = __end;
                #place
                #krate::__derived::zero(__p, __gap, __at);
                <#ty as #krate::Persist>::clear_padding(__p.add(__at));
            }
        });
        quote! {
            #id => {
                let mut __end = __start;
                #( #fields )*
                #krate::__derived::zero(__p, __end, ::core::mem::size_of::<Self>());
            }
        }
    });
    let padded = variants.iter().map(|v| {
        let fields = v.fields.iter().map(|f| {
            let (ty, place) = (&f.ty, place(f, input));
            quote! {
                let __gap = __end;
                #place
                __padded |= __gap != __at || <#ty as #krate::Persist>::PADDED;
            }
        });
        quote! {
            let mut __end = __start;
            #( #fields )*
            __padded |= __end != ::core::mem::size_of::<Self>();
        }
    });
    Functions {
        padded: quote! {
            #start
            let mut __padded = __start != ::core::mem::size_of::<#int>();
            #( #padded )*
            __padded
        },
        offsets: quote! {
            #consts
            #start
            #( #offsets )*
        },
        parts: quote! {
            #krate::__derived::Part::Field {
                name: "tag",
                offset: 0,
                of: <#int as #krate::Persist>::LAYOUT,
            },
            #( #parts )*
        },
        check: quote! {
            #consts
            #start
            match __p.cast::<#int>().read() {
                #( #check )*
                _ => return ::core::result::Result::Err(#krate::__derived::Invalid::Bits(#name)),
            }
            ::core::result::Result::Ok(())
        },
        clear_padding: quote! {
            #consts
            #start
            #krate::__derived::zero(__p, ::core::mem::size_of::<#int>(), __start);
            match __p.cast::<#int>().read() {
                #( #clear_padding )*
                _ => {}
            }
        },
    }
}

fn tag_const(i: usize) -> proc_macro2::Ident {
    format_ident!("__TAG_{i}")
}

/// The offset of a field of a variant, bound by `offsets`.
fn offset_of(variant: usize, field: usize) -> proc_macro2::Ident {
    format_ident!("__at_{variant}_{field}")
}

/// The discriminants: as written, or one more than the one before.
fn tag_consts(int: &TokenStream, variants: &[Variant]) -> TokenStream {
    let consts = variants.iter().enumerate().map(|(i, v)| {
        let id = tag_const(i);
        let value = match (&v.discriminant, i.checked_sub(1).map(tag_const)) {
            (Some(e), _) => quote!(#e),
            (None, Some(before)) => quote!(#before + 1),
            (None, None) => quote!(0),
        };
        quote_spanned!(v.span=> const #id: #int = #value;)
    });
    quote!( #( #consts )* )
}

/// Where the fields of each variant begin.
fn start(tag: &Tag, variants: &[Variant], int: &TokenStream, input: &Input) -> TokenStream {
    if !tag.c {
        return quote!(let __start = ::core::mem::size_of::<#int>(););
    }
    let krate = &input.krate;
    let types = variants.iter().flat_map(|v| &v.fields).map(|f| &f.ty);
    quote! {
        let mut __align = 1usize;
        #( if ::core::mem::align_of::<#types>() > __align { __align = ::core::mem::align_of::<#types>(); } )*
        let __start = #krate::__derived::place(::core::mem::size_of::<#int>(), __align);
    }
}

/// Binds the offset of the next field and moves the end behind it.
fn place(f: &Field, input: &Input) -> TokenStream {
    let (krate, ty) = (&input.krate, &f.ty);
    quote! {
        let __at = #krate::__derived::place(__end, ::core::mem::align_of::<#ty>());
        __end = __at + ::core::mem::size_of::<#ty>();
    }
}
