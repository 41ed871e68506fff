//! `Fields` and the struct of field slots.

use crate::input::{Body, Input};
use crate::names::local;
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::{GenericParam, parse_quote};

/// The struct of field slots, and the impl that creates it.
pub fn expand(input: &Input) -> (TokenStream, TokenStream) {
    let Body::Struct(fields) = &input.body else {
        return Default::default();
    };
    if !input.named || fields.is_empty() {
        return Default::default();
    }
    let (krate, ident, vis) = (&input.krate, &input.ident, &input.vis);
    let slots = match &input.slots {
        Some(name) => name.clone(),
        None => format_ident!("{}Slots", ident),
    };
    let lend = input.fresh.name("__L");
    let (at, lender) = (local("at"), local("lend"));

    let mut slot_generics = input.persist_generics.clone();
    for p in &mut slot_generics.params {
        if let GenericParam::Type(t) = p {
            t.default = None;
        } else if let GenericParam::Const(c) = p {
            c.default = None;
        }
    }
    let param = parse_quote!(#lend: #krate::__derived::FieldAccess);
    slot_generics.params.push(param);
    let slot_where = slot_generics.where_clause.take();
    let (_, slot_ty_generics, _) = slot_generics.split_for_impl();
    let (impl_generics, ty_generics, where_clause) = input.persist_generics.split_for_impl();

    let decls = fields.iter().map(|f| {
        let (vis, ident, ty) = (&f.vis, &f.ident, &f.ty);
        let doc = format!("The field slot of `{}`.", f.name);
        quote_spanned! {f.span=>
            #[doc = #doc]
            #vis #ident: <#lend as #krate::__derived::FieldAccess>::FieldSlot<#ty>,
        }
    });
    let inits = fields.iter().map(|f| {
        let (ident, ty) = (&f.ident, &f.ty);
        quote_spanned! {f.span=>
            #ident: <#lend as #krate::__derived::FieldAccess>::field_slot::<#ty>(#lender, &raw mut (*#at).#ident),
        }
    });
    let doc = format!("A field slot for each field of [`{}`].", input.name());
    let declaration = quote! {
        #[doc = #doc]
        #[automatically_derived]
        #vis struct #slots #slot_generics #slot_where {
            #( #decls )*
        }
    };
    let implementation = quote! {
        // SAFETY: one slot for each field, each of its own field.
        #[automatically_derived]
        unsafe impl #impl_generics #krate::__derived::Fields for #ident #ty_generics #where_clause {
            type Slots<#lend: #krate::__derived::FieldAccess> = #slots #slot_ty_generics;

            unsafe fn project<#lend: #krate::__derived::FieldAccess>(
                #at: *mut Self,
                #lender: #lend,
            ) -> Self::Slots<#lend> {
                unsafe { #slots { #( #inits )* } }
            }
        }
    };
    (declaration, implementation)
}
