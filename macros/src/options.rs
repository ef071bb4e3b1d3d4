//! What stands in the parentheses of `#[filch::task(...)]`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{
    Error, Expr, Ident, Lit, Path, Token, UnOp,
    ext::IdentExt,
    parse::{Parse, ParseStream, Parser},
};

const KNOWN: &str = "there are `pool_size = ...`, `local` and `crate = ...`";

/// The options. One that is not there, or is wrong, has its default.
pub(crate) struct Options {
    /// How many slots.
    pub(crate) pool_size: TokenStream,
    /// The future need not be `Send`.
    pub(crate) local: bool,
    /// The path of the crate `filch`.
    pub(crate) krate: TokenStream,
}

/// One option. `pool_size` and `crate` have a value.
enum Choice {
    PoolSize(Expr),
    Local,
    Crate(Path),
}

impl Options {
    /// Reads the options, and adds what is wrong with them to `errors`.
    pub(crate) fn read(tokens: TokenStream, errors: &mut Vec<Error>) -> Self {
        let mut options = Self { pool_size: quote!(1), local: false, krate: quote!(::filch) };
        each(tokens, KNOWN, errors, |name, input, errors| {
            match Choice::of(name, input)? {
                Choice::PoolSize(size) => match not_a_size(&size) {
                    Some(error) => errors.push(error),
                    None => options.pool_size = size.into_token_stream(),
                },
                Choice::Local => options.local = true,
                Choice::Crate(path) => options.krate = path.into_token_stream(),
            }
            Ok(())
        });
        options
    }
}

/// Reads options with commas between them: `take` takes what follows the name of one. Adds what is wrong to `errors`.
pub(crate) fn each(
    tokens: TokenStream,
    known: &str,
    errors: &mut Vec<Error>,
    mut take: impl FnMut(&Ident, ParseStream<'_>, &mut Vec<Error>) -> syn::Result<()>,
) {
    let mut seen: Vec<Ident> = Vec::new();
    let read = |input: ParseStream<'_>| {
        while !input.is_empty() {
            if !input.peek(Ident::peek_any) {
                return Err(input.error(format!("an option is expected: {known}")));
            }
            let name = input.call(Ident::parse_any)?;
            if seen.contains(&name) {
                errors.push(Error::new(name.span(), format!("`{name}` is set twice")));
            }
            take(&name, input, errors)?;
            seen.push(name);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(())
    };
    if let Err(error) = read.parse2(tokens) {
        errors.push(error);
    }
}

impl Choice {
    fn of(name: &Ident, input: ParseStream<'_>) -> syn::Result<Self> {
        if name == "pool_size" {
            Ok(Self::PoolSize(value(name, "a number of slots", input)?))
        } else if name == "crate" {
            Ok(Self::Crate(value(name, "the path of the crate `filch`", input)?))
        } else if name == "local" {
            if input.peek(Token![=]) {
                return Err(input.error("`local` has no value"));
            }
            Ok(Self::Local)
        } else {
            let message = format!("`{name}` is no option: {KNOWN}");
            Err(Error::new(name.span(), message))
        }
    }
}

pub(crate) fn value<T: Parse>(name: &Ident, what: &str, input: ParseStream<'_>) -> syn::Result<T> {
    if !input.peek(Token![=]) {
        return Err(Error::new(name.span(), format!("`{name}` needs {what}: `{name} = ...`")));
    }
    input.parse::<Token![=]>()?;
    input.parse()
}

/// What is wrong with a literal. The compiler checks all else: the value of a constant, and that it is one.
fn not_a_size(size: &Expr) -> Option<Error> {
    let message = match size {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(n) if n.base10_digits() == "0" => "a task needs at least one slot",
            Lit::Int(_) => return None,
            _ => "`pool_size` is a number of slots: an integer, or a constant expression",
        },
        Expr::Unary(minus) if matches!(minus.op, UnOp::Neg(_)) => "a task needs at least one slot",
        _ => return None,
    };
    Some(Error::new_spanned(size, message))
}
