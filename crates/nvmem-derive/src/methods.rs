//! `#[derive(Fields)]`: a getter and a setter for each field, on the handles of `vnv-heap`.

use crate::attrs::path;
use crate::input::{bound, plain_name};
use crate::manifest;
use crate::names::{Fresh, local};
use crate::types::{NameSelf, Names};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::visit::Visit;
use syn::visit_mut::VisitMut;
use syn::{
    Attribute, Data, DeriveInput, Error, Fields, GenericParam, Ident, Path, Result, Type,
    Visibility, parse_quote,
};

/// The content of `#[fields(..)]`.
struct Options {
    /// `crate = path`: the path of `vnv-heap`.
    krate: Path,
    /// `name = Name`: the name of the struct with the methods.
    name: Option<Ident>,
}

impl Options {
    fn new(attrs: &[Attribute]) -> Result<Self> {
        let (mut krate, mut name) = (None, None);
        for attr in attrs.iter().filter(|a| a.path().is_ident("fields")) {
            attr.parse_nested_meta(|meta| {
                if meta.path.is_ident("crate") {
                    krate = Some(meta.value()?.call(Path::parse_mod_style)?);
                } else if meta.path.is_ident("name") {
                    name = Some(meta.value()?.parse()?);
                } else {
                    return Err(meta.error(
                        "unknown option: the options are `#[fields(crate = path)]` for the path of `vnv-heap`, and `#[fields(name = \
                         Name)]` for the name of the struct with the methods",
                    ));
                }
                Ok(())
            })?;
        }
        let krate = match krate {
            Some(krate) => krate,
            None => path(
                manifest::vnv_heap(),
                "this derive needs the crate `vnv-heap`: add `vnv-heap = \"0.1\"` to `[dependencies]` of Cargo.toml, or name its \
                 path with `#[fields(crate = path)]`",
            )?,
        };
        Ok(Options { krate, name })
    }
}

pub fn expand(item: DeriveInput) -> Result<TokenStream> {
    let fresh = Fresh::new(&item.to_token_stream());
    let Options { krate, name } = Options::new(&item.attrs)?;
    let (ident, vis) = (&item.ident, &item.vis);
    let fields = match item.data {
        Data::Struct(s) => s.fields,
        Data::Enum(e) => {
            return Err(Error::new(
                e.enum_token.span,
                "an enum has no fields to access by name: use `heap.with` and `heap.update`, or put it into a field of a struct",
            ));
        }
        Data::Union(u) => {
            return Err(Error::new(
                u.union_token.span,
                "a union cannot be an object",
            ));
        }
    };
    let Fields::Named(fields) = fields else {
        return Err(Error::new(
            ident.span(),
            format!(
                "the fields of `{ident}` have no names for the methods: write `struct {ident} {{ name: Type }}`"
            ),
        ));
    };

    // The heap's brand; all other generics as in the item.
    let heap_life = syn::Lifetime::new("'__heap", Span::mixed_site());
    let (_, ty_generics, _) = item.generics.split_for_impl();
    let object: Type = parse_quote!(#ident #ty_generics);
    let persist_generics = bound(&item.generics, &quote!(#krate::nvmem::Persist));
    let (impl_generics, _, where_clause) = persist_generics.split_for_impl();
    let mut of_generics = persist_generics.clone();
    for p in &mut of_generics.params {
        if let GenericParam::Type(t) = p {
            t.default = None;
        } else if let GenericParam::Const(c) = p {
            c.default = None;
        }
    }
    of_generics.params.insert(0, parse_quote!(#heap_life));
    let mut declared = of_generics.clone();
    let marker = fresh.name("__B");
    declared.params.push(parse_quote!(#marker = ()));
    of_generics.params.push(parse_quote!(#marker));
    let declared = &declared.params;
    let (of_impl_generics, of_ty_generics, _) = of_generics.split_for_impl();
    let of_where = &of_generics.where_clause;
    let of = name.unwrap_or_else(|| format_ident!("{}Fields", ident));

    let brand = item.generics.lifetimes().next().map(|l| &l.lifetime);
    let params: Vec<Ident> = item
        .generics
        .type_params()
        .map(|t| t.ident.clone())
        .collect();
    let mentions = |ty: &Type, brand, params| {
        let mut names = Names {
            brand,
            params,
            found: false,
        };
        names.visit_type(ty);
        names.found
    };
    let method_params = Params {
        heap: fresh.name("__H"),
        marker: marker.clone(),
        result: fresh.name("__O"),
    };
    let mut methods = Vec::new();
    for f in fields.named {
        let Some(field) = f.ident else { continue };
        let mut ty = f.ty;
        NameSelf { by: object.clone() }.visit_type_mut(&mut ty);
        let (owns, may_own) = (mentions(&ty, brand, &[]), mentions(&ty, None, &params));
        methods.extend(
            Method {
                krate: &krate,
                object: &object,
                heap_life: &heap_life,
                docs: f
                    .attrs
                    .into_iter()
                    .filter(|a| a.path().is_ident("doc"))
                    .collect(),
                vis: &f.vis,
                field,
                ty,
                params: &method_params,
            }
            .all(owns, may_own),
        );
    }
    unique(&methods)?;
    let own = local("own");
    let methods = methods.into_iter().map(|(_, tokens)| tokens);
    let doc = format!(
        "A handle to a [`{}`], with a getter and a setter for each field.",
        plain_name(ident)
    );
    Ok(quote! {
        #[doc = #doc]
        #[automatically_derived]
        #[repr(transparent)]
        #vis struct #of <#declared> (#krate::Own<#heap_life, #object, #marker>) #of_where;

        #[doc(hidden)]
        const _: () = {
            // SAFETY: a transparent `Own` of this type.
            #[automatically_derived]
            unsafe impl #impl_generics #krate::Fields for #object #where_clause {
                type Of<#heap_life, #marker> = #of #of_ty_generics;

                // Uses the trait's own types, so that a path to another `Own` is refused.
                fn named<#heap_life, #marker>(
                    #own: #krate::Own<#heap_life, Self, #marker>
                ) -> Self::Of<#heap_life, #marker> {
                    #of(#own)
                }
            }

            #[automatically_derived]
            impl #of_impl_generics #of #of_ty_generics #of_where {
                #( #methods )*
            }
        };
    })
}

/// Refuses two methods of one name. The compiler's message would refer to generated code.
fn unique(methods: &[(Ident, TokenStream)]) -> Result<()> {
    for (i, (name, _)) in methods.iter().enumerate() {
        if methods.iter().take(i).any(|(other, _)| other == name) {
            return Err(Error::new(
                name.span(),
                format!("two fields make a method `{name}`: rename one"),
            ));
        }
    }
    Ok(())
}

/// A field for which methods are generated.
struct Method<'a> {
    krate: &'a Path,
    object: &'a Type,
    heap_life: &'a syn::Lifetime,
    docs: Vec<Attribute>,
    vis: &'a Visibility,
    field: Ident,
    ty: Type,
    /// The type parameters of a method: those of the heap, and a closure's result.
    params: &'a Params,
}

/// Names that the item does not use.
struct Params {
    heap: Ident,
    marker: Ident,
    result: Ident,
}

impl Method<'_> {
    /// `owns`: the field may hold a handle. `may_own`: that depends on a type parameter.
    fn all(&self, owns: bool, may_own: bool) -> Vec<(Ident, TokenStream)> {
        let mut all = Vec::new();
        if !owns {
            let ty = &self.ty;
            let krate = self.krate;
            let plain = may_own.then(|| quote!(where #ty: #krate::nvmem::Plain));
            all.extend([self.get(plain.as_ref()), self.set(plain.as_ref())]);
        }
        if owns || may_own {
            all.extend([self.with(), self.update(), self.replace()]);
        }
        all
    }

    /// The name of a method. Has a span of the macro, so that an unused method causes no warning.
    fn name(&self, verb: &str) -> Ident {
        let span = Span::call_site().located_at(self.field.span());
        let mut name = self.field.clone();
        if !verb.is_empty() {
            name = format_ident!("{verb}_{}", plain_name(&self.field));
        }
        name.set_span(span);
        name
    }

    fn one(
        &self,
        verb: &str,
        does: &str,
        result_param: Option<TokenStream>,
        signature: TokenStream,
        body: TokenStream,
    ) -> (Ident, TokenStream) {
        let (krate, heap_life, vis, docs) = (self.krate, self.heap_life, self.vis, &self.docs);
        let name = self.name(verb);
        let of = format!("Field `{}`: {does}", plain_name(&self.field));
        let span = Span::call_site().located_at(self.field.span());
        let (args, result) = (signature, quote!(::core::result::Result));
        let Params { heap, marker, .. } = self.params;
        let tokens = quote_spanned! {span=>
            #[doc = #of]
            #[doc = ""]
            #( #docs )*
            #[inline]
            #vis fn #name<#heap: #krate::HeapOf<#heap_life, #marker> #result_param>(
                &self,
                heap: &#heap,
                #args
            ) -> #result #body
        };
        (name, tokens)
    }

    fn bounds(&self) -> TokenStream {
        let (krate, object) = (self.krate, self.object);
        let marker = &self.params.marker;
        quote!(#object: #krate::Marked<#marker>)
    }

    fn get(&self, plain: Option<&TokenStream>) -> (Ident, TokenStream) {
        let (krate, ty, field, bounds) = (self.krate, &self.ty, &self.field, self.bounds());
        let heap = &self.params.heap;
        let bounds = plain.map_or(quote!(where #bounds), |p| quote!(#p, #bounds));
        self.one(
            "",
            "returns a copy. Holds the object during the call. **Cost**, **Errors**: as `Heap::get`.",
            None,
            quote!(),
            quote! {
                <#ty, #krate::Error<#heap::Error>> #bounds {
                    heap.unrooted().with(&self.0, |object| #krate::__fields::copy(&object.#field))
                }
            },
        )
    }

    fn set(&self, plain: Option<&TokenStream>) -> (Ident, TokenStream) {
        let (krate, ty, field, bounds) = (self.krate, &self.ty, &self.field, self.bounds());
        let heap = &self.params.heap;
        let bounds = plain.map_or(quote!(where #bounds), |p| quote!(#p, #bounds));
        self.one(
            "set",
            "sets the value. Holds the object during the call and marks it dirty. **Power loss**, **Cost**, **Errors**: as \
             `Heap::get_mut`.",
            None,
            quote!(value: #ty),
            quote! {
                <(), #krate::Error<#heap::Error>> #bounds {
                    heap.unrooted().update(&self.0, |object| object.#field = value)
                }
            },
        )
    }

    fn with(&self) -> (Ident, TokenStream) {
        let (krate, ty, field, bounds) = (self.krate, &self.ty, &self.field, self.bounds());
        let heap = &self.params.heap;
        let result = &self.params.result;
        self.one(
            "with",
            "calls `f` with a reference. Holds the object during the call. **Cost**, **Errors**: as `Heap::get`.",
            Some(quote!(, #result)),
            quote!(f: impl ::core::ops::FnOnce(&#ty) -> #result),
            quote! {
                <#result, #krate::Error<#heap::Error>> where #bounds {
                    heap.unrooted().with(&self.0, |object| f(&object.#field))
                }
            },
        )
    }

    fn update(&self) -> (Ident, TokenStream) {
        let (krate, ty, field, bounds) = (self.krate, &self.ty, &self.field, self.bounds());
        let heap = &self.params.heap;
        let result = &self.params.result;
        self.one(
            "update",
            "calls `f` with a mutable reference. Holds the object during the call and marks it dirty. **Power loss**, \
             **Cost**, **Errors**: as `Heap::get_mut`.",
            Some(quote!(, #result)),
            quote!(f: impl ::core::ops::FnOnce(&mut #ty) -> #result),
            quote! {
                <#result, #krate::Error<#heap::Error>> where #bounds {
                    heap.unrooted().update(&self.0, |object| f(&mut object.#field))
                }
            },
        )
    }

    fn replace(&self) -> (Ident, TokenStream) {
        let (krate, ty, field, bounds) = (self.krate, &self.ty, &self.field, self.bounds());
        let heap = &self.params.heap;
        self.one(
            "replace",
            "sets the value and returns the previous one with its handles. Holds the object during the call and marks it dirty. \
             **Power loss**, **Cost**, **Errors**: as `Heap::get_mut`; an error returns the value.",
            None,
            quote!(value: #ty),
            quote! {
                <#ty, #krate::Rejected<#ty, #heap::Error>> where #bounds {
                    match heap.unrooted().get_mut(&self.0) {
                        ::core::result::Result::Ok(mut object) => {
                            ::core::result::Result::Ok(::core::mem::replace(&mut object.#field, value))
                        }
                        ::core::result::Result::Err(error) => {
                            ::core::result::Result::Err(#krate::Rejected { error, value })
                        }
                    }
                }
            },
        )
    }
}
