//! `#[filch::task]`, docs to follow.
mod expand;
mod function;
mod options;

use proc_macro::TokenStream;

/// Doc.
#[proc_macro_attribute]
pub fn task(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::task(options.into(), item.into()).into()
}
