//! Names in generated code that cannot collide with the user's names.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::format_ident;
use std::collections::BTreeSet;

/// A local variable. Hygiene hides it from the user's tokens. But a constant of the same name would
/// turn the binding into a pattern, which the compiler refuses; the prefix avoids this.
pub fn local(name: &str) -> Ident {
    format_ident!("__nvmem_{name}", span = Span::mixed_site())
}

/// The identifiers that an item uses. Hygiene does not hide generated items and parameters, so they
/// need names that are not among these.
pub struct Fresh(BTreeSet<String>);

impl Fresh {
    pub fn new(item: &TokenStream) -> Self {
        let mut all = BTreeSet::new();
        mentioned(item.clone(), &mut all);
        Fresh(all)
    }

    /// This name, with underscores appended if the item uses it.
    pub fn name(&self, name: &str) -> Ident {
        let mut free = name.to_owned();
        while self.0.contains(&free) {
            free.push('_');
        }
        format_ident!("{free}", span = Span::mixed_site())
    }
}

fn mentioned(tokens: TokenStream, all: &mut BTreeSet<String>) {
    for t in tokens {
        match t {
            TokenTree::Group(g) => mentioned(g.stream(), all),
            TokenTree::Ident(i) => {
                all.insert(crate::input::plain_name(&i));
            }
            _ => {}
        }
    }
}
