//! Structs: `#[repr(C)]` and `#[repr(transparent)]`.

use crate::Functions;
use crate::input::{Field, Input};
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};

pub fn body(input: &Input, fields: &[Field]) -> Functions {
    let krate = &input.krate;
    let parts = fields.iter().map(|f| {
        let Field {
            member, name, ty, ..
        } = f;
        quote_spanned! {f.span=>
            #krate::__derived::Part::Field {
                name: #name,
                offset: ::core::mem::offset_of!(Self, #member),
                of: <#ty as #krate::Persist>::LAYOUT,
            }
        }
    });
    let check = fields.iter().map(|f| {
        let Field { member, ty, .. } = f;
        quote_spanned! {f.span=>
            <#ty as #krate::Persist>::check(__p.add(::core::mem::offset_of!(Self, #member)), __v)?;
        }
    });
    let clear_padding = fields.iter().map(|f| {
        let Field { member, ty, .. } = f;
        let zero = (!input.transparent).then(|| {
            quote! {
                #krate::__derived::zero(__p, __end, __at);
                __end = __at + ::core::mem::size_of::<#ty>();
            }
        });
        quote_spanned! {f.span=>
            let __at = ::core::mem::offset_of!(Self, #member);
            <#ty as #krate::Persist>::clear_padding(__p.add(__at));
            #zero
        }
    });
    let padded = fields.iter().map(|f| {
        let Field { member, ty, .. } = f;
        let gap = (!input.transparent).then(|| {
            quote! {
                __padded |= __end != ::core::mem::offset_of!(Self, #member);
                __end = ::core::mem::offset_of!(Self, #member) + ::core::mem::size_of::<#ty>();
            }
        });
        quote! {
            __padded |= <#ty as #krate::Persist>::PADDED;
            #gap
        }
    });
    let all = (!input.transparent).then(|| quote!(|| __end != ::core::mem::size_of::<Self>()));
    // The fields of a `repr(C)` struct lie in the order of their declaration; a transparent one has no padding of its own,
    // and fields without size anywhere.
    let (begin, tail) = if input.transparent {
        (None, None)
    } else {
        (
            Some(quote!(let mut __end = 0usize;)),
            Some(quote!(#krate::__derived::zero(__p, __end, ::core::mem::size_of::<Self>());)),
        )
    };
    Functions {
        offsets: TokenStream::new(),
        parts: quote!( #( #parts ),* ),
        check: quote! {
            #( #check )*
            ::core::result::Result::Ok(())
        },
        clear_padding: quote! {
            #begin
            #( #clear_padding )*
            #tail
        },
        padded: quote! {
            let mut __padded = false;
            #begin
            #( #padded )*
            __padded #all
        },
    }
}
