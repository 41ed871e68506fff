//! Structs with `#[repr(C)]`, whose gaps and tail are padding, and with `#[repr(transparent)]`,
//! which add none.

use crate::Functions;
use crate::input::{Field, Input};
use crate::names::local;
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};

pub fn body(input: &Input, fields: &[Field]) -> Functions {
    let krate = &input.krate;
    let (d, p, v) = (local("d"), local("p"), local("v"));
    let (memory, value) = (local("memory"), local("value"));
    let (at, end, padded) = (local("at"), local("end"), local("is_padded"));

    let members = fields.iter().map(|f| {
        let Field {
            member, name, ty, ..
        } = f;
        quote_spanned! {f.span=>
            #krate::__derived::Member::Field {
                name: #name,
                offset: ::core::mem::offset_of!(Self, #member),
                of: <#ty as #krate::Persist>::LAYOUT,
            }
        }
    });
    // The compiler computes the address of the field, and compares its type with the checked one.
    let checks = fields.iter().map(|f| {
        let Field { member, ty, .. } = f;
        quote_spanned! {f.span=>
            <#ty as #krate::Persist>::check(#d.field::<#ty>(&raw const (*#value).#member), #v)?;
        }
    });
    let clear_paddings = fields.iter().map(|f| {
        let Field { member, ty, .. } = f;
        let zero = (!input.transparent).then(|| {
            quote! {
                #d.zero(#p, #end, #at);
                #end = #at + #d.size_of::<#ty>();
            }
        });
        quote_spanned! {f.span=>
            let #at = #d.offset(#value, &raw const (*#value).#member);
            <#ty as #krate::Persist>::clear_padding(#p.add(#at));
            #zero
        }
    });
    let gaps = fields.iter().map(|f| {
        let Field { member, ty, .. } = f;
        let gap = (!input.transparent).then(|| {
            quote! {
                let #at = unsafe { #d.offset(#value, &raw const (*#value).#member) };
                #padded |= #end != #at;
                #end = #at + #d.size_of::<#ty>();
            }
        });
        quote! {
            #padded |= <#ty as #krate::Persist>::PADDED;
            #gap
        }
    });
    let all = (!input.transparent).then(|| quote!(|| #end != #d.size_of::<Self>()));
    // The fields of a `repr(C)` struct are in order of declaration. A transparent struct adds no
    // padding, and its zero-sized fields may be anywhere.
    let (begin, tail) = if input.transparent {
        (None, None)
    } else {
        (
            Some(quote!(let mut #end = 0usize;)),
            Some(quote!(#d.zero(#p, #end, #d.size_of::<Self>());)),
        )
    };
    Functions {
        offsets: TokenStream::new(),
        members: quote!( #( #members ),* ),
        check: quote! {
            let #value = #p.cast::<Self>();
            #( #checks )*
            #d.valid()
        },
        clear_padding: quote! {
            let #value = #p.cast::<Self>().cast_const();
            #begin
            #( #clear_paddings )*
            #tail
        },
        padded: quote! {
            let mut #padded = false;
            let #memory = #d.uninit::<Self>();
            let #value = #memory.as_ptr();
            #begin
            #( #gaps )*
            #padded #all
        },
    }
}
