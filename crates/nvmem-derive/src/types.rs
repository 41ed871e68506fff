//! Searches and rewrites field types.

use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{GenericArgument, Ident, Lifetime, Path, Type, parse_quote};

/// The name, if the type is a single identifier.
pub fn bare(ty: &Type) -> Option<&Ident> {
    match ty {
        Type::Path(p) if p.qself.is_none() => p.path.get_ident(),
        _ => None,
    }
}

/// Replaces `Self` by the type's name, because field types are repeated where `Self` is another
/// type.
pub struct NameSelf {
    pub by: Type,
}

impl VisitMut for NameSelf {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        if bare(ty).is_some_and(|i| i == "Self") {
            *ty = self.by.clone();
        } else {
            visit_mut::visit_type_mut(self, ty);
        }
    }
}

/// Finds a lifetime argument, `PBox<'a, T>`, that is not the type's own lifetime.
pub struct OtherBrand<'a> {
    pub own: Option<&'a Lifetime>,
    pub found: Option<Lifetime>,
}

impl<'ast> Visit<'ast> for OtherBrand<'_> {
    fn visit_generic_argument(&mut self, arg: &'ast GenericArgument) {
        match arg {
            GenericArgument::Lifetime(l) if Some(l) != self.own => {
                self.found.get_or_insert_with(|| l.clone());
            }
            _ => visit::visit_generic_argument(self, arg),
        }
    }
}

/// Finds uses of the brand and of type parameters.
pub struct Names<'a> {
    pub brand: Option<&'a Lifetime>,
    pub params: &'a [Ident],
    pub found: bool,
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_lifetime(&mut self, l: &'ast Lifetime) {
        self.found |= self.brand == Some(l);
    }

    fn visit_ident(&mut self, i: &'ast Ident) {
        self.found |= self.params.contains(i);
    }

    fn visit_macro(&mut self, _: &'ast syn::Macro) {
        self.found |= self.brand.is_some() || !self.params.is_empty();
    }
}

/// Rewrites a type for a transaction of another brand: replaces the lifetime parameter, and each
/// type parameter `T` by `T::At`.
pub struct Rebrand<'a> {
    pub krate: &'a Path,
    pub lifetime: Option<&'a Lifetime>,
    pub params: &'a [Ident],
    pub brand: &'a Lifetime,
}

impl VisitMut for Rebrand<'_> {
    fn visit_lifetime_mut(&mut self, l: &mut Lifetime) {
        if Some(&*l) == self.lifetime {
            l.ident = self.brand.ident.clone();
        }
    }

    fn visit_type_mut(&mut self, ty: &mut Type) {
        let param = bare(ty).filter(|i| self.params.contains(i));
        if let Some(param) = param {
            let (krate, brand) = (self.krate, self.brand);
            *ty = parse_quote!(<#param as #krate::Persist>::At<#brand>);
        } else {
            visit_mut::visit_type_mut(self, ty);
        }
    }
}
