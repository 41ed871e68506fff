//! Names that generated code gives, where no name of the user's can meet them.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::format_ident;
use std::collections::BTreeSet;

/// A local variable: no token of the user's means it, in whatever macro. A constant of theirs with this name would be taken for a pattern, which
/// the compiler refuses; so it has a name that nobody gives to one.
pub fn local(name: &str) -> Ident {
    format_ident!("__nvmem_{name}", span = Span::mixed_site())
}

/// Names that an item does not mention. What is no local variable is found by whoever writes its name, in whatever macro.
pub struct Fresh(BTreeSet<String>);

impl Fresh {
    pub fn new(item: &TokenStream) -> Self {
        let mut all = BTreeSet::new();
        mentioned(item.clone(), &mut all);
        Fresh(all)
    }

    /// This name, or one that begins with it.
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
