//! Parses and checks the item. Refuses everything that is wrong by its tokens alone.
//! crates/nvmem/tests/ui pins the messages.

use crate::attrs::{Options, Repr};
use crate::names::Fresh;
use crate::types::{NameSelf, Names, OtherBrand, Rebrand, bare};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::visit_mut::VisitMut;
use syn::{
    Data, DeriveInput, Error, Expr, Fields, GenericArgument, GenericParam, Generics, Ident,
    Lifetime, Path, PathArguments, Result, Type, TypeParamBound, Visibility, WherePredicate,
    parse_quote,
};

/// A field.
pub struct Field {
    /// The name or index, as after the dot.
    pub member: TokenStream,
    /// The name in the layout.
    pub name: String,
    pub ident: Option<Ident>,
    pub vis: Visibility,
    pub ty: Type,
    /// The span of the field's type, for generated code.
    pub span: Span,
}

impl Field {
    /// `<Type as Persist>::At<'brand>`, with the span of the field's type, so that the compiler
    /// reports an error only once.
    pub fn projected(&self, krate: &Path, brand: &Lifetime) -> TokenStream {
        let (first, last) = self.ends();
        let open = quote_spanned!(first=> <);
        let close = quote_spanned!(last=> >);
        let at = quote_spanned!(last=> At);
        self.associated(krate, quote!(#at #open #brand #close))
    }

    /// `<Type as Persist>::HandleTargets`, in the same way.
    pub fn handle_targets(&self, krate: &Path) -> TokenStream {
        let (_, last) = self.ends();
        self.associated(krate, quote_spanned!(last=> HandleTargets))
    }

    fn associated(&self, krate: &Path, name: TokenStream) -> TokenStream {
        let ty = &self.ty;
        let (first, last) = self.ends();
        let open = quote_spanned!(first=> <);
        let close = quote_spanned!(last=> >::);
        quote!(#open #ty as #krate::Persist #close #name)
    }

    /// The spans of the type's first and last token.
    pub fn ends(&self) -> (Span, Span) {
        let mut tokens = self.ty.to_token_stream().into_iter();
        let first = tokens.next().map_or(self.span, |t| t.span());
        (first, tokens.last().map_or(first, |t| t.span()))
    }
}

pub struct Variant {
    pub name: String,
    pub span: Span,
    pub discriminant: Option<Expr>,
    pub fields: Vec<Field>,
}

/// The memory layout of an enum.
pub struct Tag {
    pub int: Ident,
    /// True for `repr(C, u8)`: the tag, then a union. False for `repr(u8)`: a union of structs that
    /// begin with the tag.
    pub c: bool,
}

pub enum Body {
    Struct(Vec<Field>),
    Enum(Tag, Vec<Variant>),
}

pub struct Input {
    pub ident: Ident,
    pub vis: Visibility,
    pub krate: Path,
    pub slots: Option<Ident>,
    /// `#[repr(transparent)]`.
    pub transparent: bool,
    pub named: bool,
    /// The lifetime parameter: the brand of the handles.
    pub lifetime: Option<Lifetime>,
    /// The lifetime in `At<'p>`.
    pub brand: Lifetime,
    pub item_generics: Generics,
    pub persist_generics: Generics,
    pub plain_generics: Generics,
    pub body: Body,
    /// Source of names that the item does not use.
    pub fresh: Fresh,
    params: Vec<Ident>,
}

impl Input {
    pub fn new(item: DeriveInput) -> Result<Self> {
        let fresh = Fresh::new(&item.to_token_stream());
        let repr = Repr::new(&item.attrs)?;
        let Options { krate, slots } = Options::new(&item.attrs)?;
        let ident = item.ident;

        let mut lifetimes = item.generics.lifetimes();
        let lifetime = lifetimes.next().map(|l| l.lifetime.clone());
        if let Some(second) = lifetimes.next() {
            return Err(Error::new(
                second.span(),
                "persistent data has at most one lifetime parameter, the transaction in which its handles are used: give all \
                 handles the same lifetime",
            ));
        }
        let params: Vec<Ident> = item
            .generics
            .type_params()
            .map(|t| t.ident.clone())
            .collect();
        params
            .iter()
            .try_for_each(|t| check_bounds(t, &item.generics))?;

        let (_, ty_generics, _) = item.generics.split_for_impl();
        let mut by_name = NameSelf {
            by: parse_quote!(#ident #ty_generics),
        };
        let named = matches!(&item.data, Data::Struct(s) if matches!(s.fields, Fields::Named(_)));
        let body = match item.data {
            Data::Struct(s) => {
                check_struct_repr(&ident, &repr)?;
                Body::Struct(fields(s.fields, &mut by_name)?)
            }
            Data::Enum(e) => {
                let tag = check_enum_repr(&ident, &repr, e.variants.is_empty())?;
                let variants = e.variants.into_iter().map(|v| {
                    Options::none(&v.attrs)?;
                    Ok(Variant {
                        span: Span::call_site().located_at(v.ident.span()),
                        name: plain_name(&v.ident),
                        discriminant: v.discriminant.map(|(_, e)| e),
                        fields: fields(v.fields, &mut by_name)?,
                    })
                });
                Body::Enum(tag, variants.collect::<Result<_>>()?)
            }
            Data::Union(u) => {
                return Err(Error::new(
                    u.union_token.span(),
                    "a union does not store which of its fields is valid, so it cannot be checked after a power cut: use an enum with \
                     `#[repr(u8)]`",
                ));
            }
        };

        let item_generics = item.generics;
        let persist_generics = bound(&item_generics, &quote!(#krate::Persist));
        let plain_generics = bound(&item_generics, &quote!(#krate::Plain));
        // The compiler shows this name if a field has another brand.
        let brand = match &lifetime {
            Some(l) if l.ident == "brand" => Lifetime::new("'other_brand", Span::mixed_site()),
            _ => Lifetime::new("'brand", Span::mixed_site()),
        };
        let input = Input {
            ident,
            vis: item.vis,
            krate,
            slots,
            transparent: repr.transparent,
            named,
            lifetime,
            brand,
            item_generics,
            persist_generics,
            plain_generics,
            body,
            fresh,
            params,
        };
        input.fields().try_for_each(|f| check_sized(&f.ty))?;
        input.fields().try_for_each(|f| input.check_brand(&f.ty))?;
        Ok(input)
    }

    /// Refuses a handle with another lifetime. The generated code detects it too, if an alias hides
    /// it here.
    fn check_brand(&self, ty: &Type) -> Result<()> {
        let mut other = OtherBrand {
            own: self.lifetime.as_ref(),
            found: None,
        };
        other.visit_type(ty);
        let Some(found) = other.found else {
            return Ok(());
        };
        let name = self.name();
        let remedy = match &self.lifetime {
            Some(own) => format!("write `{own}`, the lifetime of `{name}`"),
            None => format!("give the type a lifetime, `{name}<'p>`, and write `'p`"),
        };
        Err(Error::new(
            found.span(),
            format!(
                "{remedy}: a handle is valid in one transaction, and this lifetime stands for it; `{found}` stands for none"
            ),
        ))
    }

    /// The type's name in the layout.
    pub fn name(&self) -> String {
        plain_name(&self.ident)
    }

    pub fn has_type_params(&self) -> bool {
        !self.params.is_empty()
    }

    pub fn has_params(&self) -> bool {
        self.has_type_params() || self.item_generics.const_params().next().is_some()
    }

    pub fn const_params(&self) -> Vec<&Ident> {
        self.item_generics
            .const_params()
            .map(|c| &c.ident)
            .collect()
    }

    /// All fields of all variants.
    pub fn fields(&self) -> impl Iterator<Item = &Field> {
        let (one, many) = match &self.body {
            Body::Struct(fields) => (Some(fields), None),
            Body::Enum(_, variants) => (None, Some(variants)),
        };
        let many = many.into_iter().flatten().flat_map(|v| &v.fields);
        one.into_iter().flatten().chain(many)
    }

    /// Whether a field of this type may hold a handle: the type names the brand or a type
    /// parameter.
    pub fn may_hold(&self, ty: &Type) -> bool {
        let mut names = Names {
            brand: self.lifetime.as_ref(),
            params: &self.params,
            found: false,
        };
        names.visit_type(ty);
        names.found
    }

    /// The type in another brand.
    pub fn at(&self, ty: &Type) -> Type {
        let mut ty = ty.clone();
        Rebrand {
            krate: &self.krate,
            lifetime: self.lifetime.as_ref(),
            params: &self.params,
            brand: &self.brand,
        }
        .visit_type_mut(&mut ty);
        ty
    }

    /// This type in another brand.
    pub fn at_self(&self) -> Type {
        let ident = &self.ident;
        let (_, ty_generics, _) = self.item_generics.split_for_impl();
        self.at(&parse_quote!(#ident #ty_generics))
    }
}

/// Refuses unsized types in a field and behind a handle. The compiler would report them once per
/// mention.
fn check_sized(ty: &Type) -> Result<()> {
    if let Some((shown, remedy)) = unsized_by_its_look(ty) {
        return Err(Error::new(
            ty.span(),
            format!("{shown} has no fixed size, and stored data needs one: write {remedy}"),
        ));
    }
    let Type::Path(p) = ty else { return Ok(()) };
    let arguments = p.path.segments.iter().flat_map(|s| match &s.arguments {
        PathArguments::AngleBracketed(a) => Some(&a.args),
        _ => None,
    });
    for args in arguments {
        let handle = args
            .iter()
            .any(|a| matches!(a, GenericArgument::Lifetime(_)));
        for a in args {
            if let GenericArgument::Type(inner) = a
                && (handle || unsized_by_its_look(inner).is_none())
            {
                check_sized(inner)?;
            }
        }
    }
    Ok(())
}

/// The type as shown in the message, and the remedy.
fn unsized_by_its_look(ty: &Type) -> Option<(String, String)> {
    match ty {
        Type::Slice(s) => {
            let elem = s.elem.to_token_stream();
            Some((
                format!("`[{elem}]`"),
                format!(
                    "`[{elem}; N]` for the largest number of elements, and a field for the number in use"
                ),
            ))
        }
        Type::TraitObject(_) => Some((
            "a trait object".to_owned(),
            "an enum with `#[repr(u8)]` and a variant for each type".to_owned(),
        )),
        Type::Path(p) if p.path.is_ident("str") => Some((
            "`str`".to_owned(),
            "`[u8; N]` for the largest number of bytes, and a field for the number in use"
                .to_owned(),
        )),
        Type::Paren(t) => unsized_by_its_look(&t.elem),
        Type::Group(t) => unsized_by_its_look(&t.elem),
        _ => None,
    }
}

/// Traits that do not imply `Plain`.
const STANDARD: [&str; 12] = [
    "Clone",
    "Copy",
    "Debug",
    "Default",
    "Display",
    "Eq",
    "Hash",
    "Ord",
    "PartialEq",
    "PartialOrd",
    "Send",
    "Sync",
];

/// In a transaction, `T` becomes `T::At<'p>`, which is only known to be `Persist`, unless `T` is
/// `Plain`. Refuses bounds that `T::At<'p>` may not meet; the compiler's message would refer to
/// generated code.
fn check_bounds(param: &Ident, generics: &Generics) -> Result<()> {
    let inline = generics
        .type_params()
        .filter(|t| t.ident == *param)
        .flat_map(|t| &t.bounds);
    let clauses = generics.where_clause.iter().flat_map(|w| &w.predicates);
    let in_where = clauses.filter_map(|p| match p {
        WherePredicate::Type(p) if bare(&p.bounded_ty) == Some(param) => Some(&p.bounds),
        _ => None,
    });
    let mut known = None;
    for bound in inline.chain(in_where.flatten()) {
        let TypeParamBound::Trait(bound) = bound else {
            continue;
        };
        if bound.maybe.is_some() {
            return Err(Error::new(
                bound.span(),
                "remove `?Sized`: stored data needs a fixed size",
            ));
        }
        match bound.path.segments.last() {
            Some(name) if STANDARD.iter().any(|s| name.ident == s) => known = known.or(Some(bound)),
            Some(name) if name.ident == "Persist" || name.ident == "Sized" => {}
            // `Plain`, or a trait that may imply it.
            _ => return Ok(()),
        }
    }
    let Some(bound) = known else { return Ok(()) };
    let shown = bound
        .path
        .segments
        .last()
        .map_or(String::new(), |s| s.ident.to_string());
    Err(Error::new(
        bound.span(),
        format!(
            "write `{param}: Plain + {shown}`, or put `{shown}` on the `impl` blocks that need it: in a transaction, `{param}` \
             becomes a type with the handles of that transaction, which may not be `{shown}`"
        ),
    ))
}

/// The name without `r#`.
pub fn plain_name(ident: &Ident) -> String {
    let s = ident.to_string();
    match s.strip_prefix("r#") {
        Some(plain) => plain.to_owned(),
        None => s,
    }
}

/// Adds this bound to every type parameter, at the place where the user wrote bounds: a lint
/// requires all bounds in one place.
pub fn bound(generics: &Generics, by: &TokenStream) -> Generics {
    let mut generics = generics.clone();
    let mut in_where: Vec<WherePredicate> = Vec::new();
    for p in &mut generics.params {
        if let GenericParam::Type(t) = p {
            let ident = &t.ident;
            if t.bounds.is_empty() && generics.where_clause.is_some() {
                in_where.push(parse_quote!(#ident: #by));
            } else {
                t.bounds.push(parse_quote!(#by));
            }
        }
    }
    if let Some(clause) = &mut generics.where_clause {
        clause.predicates.extend(in_where);
    }
    generics
}

fn fields(fields: Fields, by_name: &mut NameSelf) -> Result<Vec<Field>> {
    let fields = fields.into_iter().enumerate().map(|(i, mut f)| {
        Options::none(&f.attrs)?;
        by_name.visit_type_mut(&mut f.ty);
        let (member, name) = match &f.ident {
            Some(ident) => (ident.to_token_stream(), plain_name(ident)),
            None => (syn::Index::from(i).to_token_stream(), i.to_string()),
        };
        Ok(Field {
            span: Span::call_site().located_at(f.ty.span()),
            member,
            name,
            ident: f.ident,
            vis: f.vis,
            ty: f.ty,
        })
    });
    fields.collect()
}

fn check_struct_repr(ident: &Ident, repr: &Repr) -> Result<()> {
    if repr.c || repr.transparent {
        return Ok(());
    }
    Err(Error::new(
        repr.span.unwrap_or(ident.span()),
        format!(
            "write `#[repr(C)]` on `{ident}`: without it, another compiler may order the fields differently and misread the stored data"
        ),
    ))
}

fn check_enum_repr(ident: &Ident, repr: &Repr, empty: bool) -> Result<Tag> {
    if empty {
        return Err(Error::new(
            ident.span(),
            "an enum without variants has no value to store",
        ));
    }
    if let Some(int) = &repr.int {
        return Ok(Tag {
            int: int.clone(),
            c: repr.c,
        });
    }
    let message = if repr.c {
        format!(
            "write `#[repr(u8)]` or `#[repr(C, u8)]` on `{ident}`: with `#[repr(C)]` alone, the width of the tag depends on the \
             target's C compiler"
        )
    } else {
        format!(
            "write `#[repr(u8)]` on `{ident}` (u16, u32, u64 or signed for more variants): without it, another compiler may lay out \
             the variants differently and misread the stored data"
        )
    };
    Err(Error::new(repr.span.unwrap_or(ident.span()), message))
}
