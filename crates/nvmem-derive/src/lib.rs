#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

// From an item to code:
//
//   item and attributes -> input.rs: parse, refuse -> structs.rs, enums.rs: `impl Persist`
//                                                  -> slots.rs: one slot for each field
//                                                  -> methods.rs: getters and setters (`Fields`)
//
// It believes no path and no name: `nvmem`'s derived.rs proves the claims of the generated code
// when the user's crate compiles.

mod attrs;
mod enums;
mod input;
mod manifest;
mod methods;
mod names;
mod slots;
mod structs;
mod types;

use names::local;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};

/// Implements `nvmem::Persist` for a struct or enum: checks field by field that its values may live
/// in non-volatile memory. The [crate] documentation lists the accepted types.
///
/// # What it generates
///
/// - `unsafe impl Persist`:
///   - `At<'p>`: the type in another transaction;
///   - `LAYOUT` and `HandleTargets`: names, offsets, sizes, tags, const parameters and the targets
///     of handles, from which the layout fingerprint is computed;
///   - `check`: validates raw bytes field by field, so that no invalid value ever exists;
///   - `clear_padding`: fills gaps, the tail, and the bytes that a variant does not use with zeros.
/// - `unsafe impl Plain`, for types without a lifetime parameter: they hold no handle, so their
///   bytes mean the same anywhere.
/// - For structs with named fields, `Fields` and a struct `NameSlots` of the same visibility, with
///   one field slot per field, for libraries that log a field at its first write.
///
/// Enum offsets follow the layouts that the
/// [reference](https://doc.rust-lang.org/reference/type-layout.html#primitive-representations)
/// documents; struct offsets come from the compiler. The generated code is `no_std`, triggers no
/// lint and needs no `allow`. Names in scope do not affect it: your own `bool`, `Result` or
/// constant changes nothing. One exception: in a module with `#[no_implicit_prelude]`, types
/// without a type parameter do not compile; put them into another module.
///
/// # Type parameters
///
/// The derive adds `T: Persist`. Put bounds of other traits on the `impl` blocks that need them, or
/// combine them with `Plain`: `T: Plain + Copy`. In a transaction, `T` becomes `T::At<'p>`, and the
/// bound must hold for that type too. Errors that depend on a type parameter's value appear where
/// the type is used:
///
/// ```compile_fail
/// use nvmem::Persist;
///
/// #[derive(Persist)]
/// #[repr(C)]
/// struct Last<T> {
///     value: T,
/// }
///
/// let _ = nvmem::fingerprint::<Last<u128>>(); // persistent data is aligned to 8 bytes at most
/// ```
///
/// # Options
///
/// - `#[persist(crate = some::path)]`: the path of `nvmem`. Without this option the derive reads
///   the program's `Cargo.toml`. It finds `nvmem` under the name that it has there, or the
///   re-export of `pmem-tx`, `nv-replay`, `nvlist`, `vnv-heap`, `checkpoint`, `nv-rtos` or
///   `nv-device`. So a program that depends on `pmem-tx` alone needs no option. You need it if
///   another crate re-exports `nvmem`. The generated code calls no function by this path: it calls
///   only methods of the implemented trait.
/// - `#[persist(slots = Name)]`: another name for the struct of field slots.
///
/// There is no option to skip a field: every field is stored.
#[proc_macro_derive(Persist, attributes(persist))]
pub fn derive_persist(item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let item = syn::parse_macro_input!(item as syn::DeriveInput);
    expand(item)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Generates a getter and a setter for each field of a struct, as methods of the handles of
/// `vnv-heap`. See `vnv_heap::Fields`.
#[proc_macro_derive(Fields, attributes(fields))]
pub fn derive_fields(item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let item = syn::parse_macro_input!(item as syn::DeriveInput);
    methods::expand(item)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

fn expand(item: syn::DeriveInput) -> syn::Result<TokenStream> {
    let input = input::Input::new(item)?;
    let body = match &input.body {
        input::Body::Struct(fields) => structs::body(&input, fields),
        input::Body::Enum(repr, variants) => enums::body(&input, repr, variants),
    };
    let (slots, fields_impl) = slots::expand(&input);
    let persist = persist_impl(&input, body);
    let plain = plain_impl(&input);
    let refusals = refusals(&input);
    Ok(quote! {
        #slots
        #[doc(hidden)]
        const _: () = {
            #persist
            #plain
            #fields_impl
            #refusals
        };
    })
}

/// The bodies of the functions of `Persist`.
struct Functions {
    /// Statements before the members.
    offsets: TokenStream,
    /// The members of the layout.
    members: TokenStream,
    check: TokenStream,
    clear_padding: TokenStream,
    /// An expression: whether the type has padding.
    padded: TokenStream,
}

fn persist_impl(input: &input::Input, f: Functions) -> TokenStream {
    let (krate, ident) = (&input.krate, &input.ident);
    let (impl_generics, ty_generics, where_clause) = input.persist_generics.split_for_impl();
    let (brand, at) = (&input.brand, input.at_self());
    let name = input.name();
    let consts = input.const_params();
    let Functions {
        offsets,
        members,
        check,
        clear_padding,
        padded,
    } = f;
    // Generated code calls unsafe functions only through the implemented trait: a path may resolve
    // to another crate's function.
    let (d, p, v) = (local("d"), local("p"), local("v"));
    let derived = quote!(let #d = <Self as #krate::Persist>::DERIVED;);
    // For types without parameters, `refusals` checks the same, with the type's name in the
    // message.
    let assert = quote!(#d.assert_layout::<Self>(););
    let assert_params = input.has_params().then_some(&assert);
    let bool = quote!(::core::primitive::bool);
    let u8 = quote!(::core::primitive::u8);
    let types = input.fields().map(|f| {
        let ty = &f.ty;
        quote_spanned!(f.span=> || <#ty as #krate::Persist>::HANDLES)
    });
    let quiet = quiet(input);
    let handle_targets = handle_targets(input);
    quote! {
        // SAFETY: each field is `Persist`; the layout is the one that `repr` guarantees; offsets
        // come from the compiler or from the documented rule; a type with drop glue is refused
        // below.
        #quiet
        #[automatically_derived]
        unsafe impl #impl_generics #krate::Persist for #ident #ty_generics #where_clause {
            type At<#brand> = #at;
            const PADDED: #bool = { #derived #padded };
            const HANDLES: #bool = false #( #types )*;

            #handle_targets
            const LAYOUT: &'static #krate::__derived::Type = {
                #derived
                #assert_params
                #offsets
                &#krate::__derived::Type::Compound {
                    name: #name,
                    size: ::core::mem::size_of::<Self>(),
                    align: ::core::mem::align_of::<Self>(),
                    params: &[ #( #d.param(#consts, #consts as ::core::primitive::u128) ),* ],
                    members: &[ #members ],
                }
            };

            unsafe fn check(
                #p: *const #u8,
                #v: &mut dyn #krate::__derived::Visit,
            ) -> ::core::result::Result<(), #krate::__derived::Invalid> {
                #derived
                #assert
                unsafe { #check }
            }

            unsafe fn clear_padding(#p: *mut #u8) {
                #derived
                unsafe { #clear_padding }
            }
        }
    }
}

/// The list of handle targets: those of the fields that may hold a handle, in tuples of at most
/// eight. A field type that names neither the brand nor a type parameter holds no handle.
fn handle_targets(input: &input::Input) -> TokenStream {
    let krate = &input.krate;
    let holders: Vec<_> = input.fields().filter(|f| input.may_hold(&f.ty)).collect();
    let mut lists: Vec<_> = holders.iter().map(|f| f.handle_targets(krate)).collect();
    while lists.len() > 1 {
        lists = lists.chunks(8).map(|c| quote!(( #( #c, )* ))).collect();
    }
    // These spans make the compiler report a type that is not `Persist` at the field.
    let (first, last) = holders
        .last()
        .map_or((Span::call_site(), Span::call_site()), |f| f.ends());
    let (head, tail) = (
        quote_spanned!(first=> type),
        quote_spanned!(last=> HandleTargets =),
    );
    let (list, end) = (
        lists.pop().unwrap_or_else(|| quote!(())),
        quote_spanned!(last=> ;),
    );
    quote!(#head #tail #list #end)
}

/// Keeps the type out of the compiler's lists of types that implement `Persist`. A type with a type
/// parameter stays in, so that an error names the wrong argument.
fn quiet(input: &input::Input) -> Option<TokenStream> {
    (!input.has_type_params()).then(|| quote!(#[diagnostic::do_not_recommend]))
}

/// Implements `Plain` for a type without a lifetime parameter if all fields are `Plain`.
fn plain_impl(input: &input::Input) -> TokenStream {
    if input.lifetime.is_some() {
        return TokenStream::new();
    }
    let (krate, ident) = (&input.krate, &input.ident);
    let (impl_generics, ty_generics, where_clause) = input.plain_generics.split_for_impl();
    let whole_life = syn::Lifetime::new("'static", Span::mixed_site());
    let plain = input.fresh.name("__is_plain");
    let t = input.fresh.name("__T");
    let asserts = input.fields().map(|f| {
        let ty = f.projected(krate, &whole_life);
        quote_spanned!(f.span=> #plain::<#ty>();)
    });

    let quiet = quiet(input);
    quote! {
        // SAFETY: no field holds a handle, which the function below does not compile without.
        #quiet
        #[automatically_derived]
        unsafe impl #impl_generics #krate::Plain for #ident #ty_generics #where_clause {}

        const _: () = {
            const fn #plain<#t: #krate::Plain>() {}
            fn __fields_are_plain #impl_generics () #where_clause {
                #( #asserts )*
            }
        };
    }
}

fn refusals(input: &input::Input) -> TokenStream {
    let ident = &input.ident;
    let span = Span::call_site().located_at(ident.span());
    let mut out = TokenStream::new();
    let t = input.fresh.name("__T");
    if input.has_params() {
        // A `Drop` impl covers every instance, so it overlaps with the blanket impl. The trait's
        // name serves as the error message.
        let (impl_generics, ty_generics, where_clause) = input.item_generics.split_for_impl();
        let must_not = input.fresh.name("PersistentDataMustNotImplementDrop");
        out.extend(quote_spanned! {span=>
            const _: () = {
                trait #must_not {}
                impl<#t: ::core::ops::Drop> #must_not for #t {}
                impl #impl_generics #must_not for #ident #ty_generics #where_clause {}
            };
        });
    } else {
        let krate = &input.krate;
        let brand = input.lifetime.iter().map(|_| quote!('static));
        let (probe, otherwise) = (input.fresh.name("__Probe"), input.fresh.name("__Otherwise"));
        let whole = quote!(#ident #(<#brand>)*);
        let drop = format!(
            "`{ident}` implements `Drop`, but no code runs when the power fails: remove the impl, and write a function that \
             frees the objects it owns"
        );
        let align = format!(
            "`{ident}` is aligned to more than 8 bytes, the alignment of persistent memory: replace `u128` and `i128` by \
             `[u64; 2]`, drop `#[repr(align(..))]`"
        );
        let on_stack = format!(
            "`{ident}` is aligned to more than 2 bytes, the alignment of variables on MSP430: drop `#[repr(align(..))]`"
        );
        out.extend(quote_spanned! {span=>
            const _: () = {
                // The inherent constant exists only for types that implement `Drop` themselves, and
                // takes precedence.
                struct #probe<#t>(::core::marker::PhantomData<#t>);
                trait #otherwise {
                    const DROPS: ::core::primitive::bool = false;
                }
                impl<#t> #otherwise for #probe<#t> {}
                impl<#t: ::core::ops::Drop> #probe<#t> {
                    const DROPS: ::core::primitive::bool = true;
                }
                ::core::assert!(!#probe::<#whole>::DROPS, #drop);
            };
            const _: () = ::core::assert!(
                ::core::mem::align_of::<#whole>() <= #krate::__derived::MAX_ALIGN,
                #align
            );
            const _: () = ::core::assert!(
                #krate::__derived::is_kept(::core::mem::align_of::<#whole>()),
                #on_stack
            );
        });
    }
    out.extend(at_check(input));
    out
}

/// Checks that the brand of each field changes with the brand of the type. Otherwise a field could
/// keep a handle after its transaction.
fn at_check(input: &input::Input) -> TokenStream {
    if input.lifetime.is_none() && !input.has_type_params() {
        return TokenStream::new();
    }
    let (krate, brand) = (&input.krate, &input.brand);
    let mut generics = input.persist_generics.clone();
    let at = syn::GenericParam::Lifetime(syn::LifetimeParam::new(brand.clone()));
    generics.params.insert(0, at);
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let fns = input.fields().map(|f| {
        let (projected, branded) = (f.projected(krate, brand), input.at(&f.ty));
        let mut field = local("field");
        field.set_span(field.span().located_at(f.span));
        quote_spanned! {f.span=>
            const _: () = {
                fn __field_follows_the_brand #impl_generics (
                    #field: #projected,
                ) -> #branded #where_clause {
                    #field
                }
            };
        }
    });
    quote!(#( #fns )*)
}
