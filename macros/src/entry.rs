//! `main` and `test`: an `async fn` on a runtime of its own.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::{Error, Expr, Path, Token, parse::ParseStream};

use crate::{
    function::Function,
    options::{each, value},
};

/// What the function becomes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Main,
    Test,
}

/// What stands in the parentheses.
struct Options {
    workers: Option<Expr>,
    paused: Option<Ident>,
    local: Option<Ident>,
    shutdown: Option<Expr>,
    krate: TokenStream,
}

impl Kind {
    fn known(self) -> &'static str {
        match self {
            Self::Main => "there are `workers = ...`, `local`, `shutdown = ...` and `crate = ...`",
            Self::Test => "there are `workers = ...`, `local`, `paused` and `crate = ...`",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Test => "test",
        }
    }
}

impl Options {
    /// Reads the options, and adds what is wrong with them to `errors`. `krate` is where the runtime is.
    fn read(kind: Kind, krate: &str, tokens: TokenStream, errors: &mut Vec<Error>) -> Self {
        let krate = Ident::new(krate, proc_macro2::Span::call_site());
        let mut options = Self {
            workers: None,
            paused: None,
            local: None,
            shutdown: None,
            krate: quote!(::#krate),
        };
        each(tokens, kind.known(), errors, |name, input, _| options.take(kind, name, input));
        if let Some(local) = options.local.as_ref().filter(|_| options.workers.is_some()) {
            let message = "`local` is one thread, which has no other `workers`";
            errors.push(Error::new(local.span(), message));
        }
        options
    }

    fn take(&mut self, kind: Kind, name: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
        if name == "workers" {
            self.workers = Some(value(name, "a number of workers", input)?);
        } else if name == "shutdown" && kind == Kind::Main {
            self.shutdown = Some(value(name, "a `Duration`", input)?);
        } else if name == "crate" {
            let path: Path = value(name, "the path of the runtime's crate", input)?;
            self.krate = path.into_token_stream();
        } else if name == "local" {
            if input.peek(Token![=]) {
                return Err(input.error("`local` has no value"));
            }
            self.local = Some(name.clone());
        } else if name == "paused" && kind == Kind::Test {
            if input.peek(Token![=]) {
                return Err(input.error("`paused` has no value"));
            }
            self.paused = Some(name.clone());
        } else {
            let message = match (kind, name.to_string().as_str()) {
                (Kind::Main, "paused") => {
                    "the clock of a program goes; `paused` is for tests".into()
                }
                (Kind::Test, "shutdown") => "the end of a test does not wait for closures".into(),
                (_, "worker_threads") => "it is `workers = ...` here".into(),
                (_, "start_paused") => "it is `paused` here".into(),
                (_, "flavor") => {
                    "one worker is `workers = 1` here, and `local` is one thread".into()
                }
                _ => format!("`{name}` is no option: {}", kind.known()),
            };
            return Err(Error::new(name.span(), message));
        }
        Ok(())
    }
}

/// The code of the attribute, for the runtime of this crate.
pub(crate) fn entry(
    kind: Kind,
    krate: &str,
    options: TokenStream,
    item: TokenStream,
) -> TokenStream {
    let mut errors = Vec::new();
    let options = Options::read(kind, krate, options, &mut errors);
    let function = syn::parse2::<Function>(item).map_err(|error| errors.push(error)).ok();
    if let Some(function) = &function {
        check(kind, function, &mut errors);
    }
    // A function that is wrong is left out: the compiler would report it a second time.
    let written = function.filter(|_| errors.is_empty()).map(|own| write(kind, &own, &options));
    let errors = errors.iter().map(Error::to_compile_error);
    quote!(#(#errors)* #written)
}

fn check(kind: Kind, function: &Function, errors: &mut Vec<Error>) {
    let (sig, name) = (&function.sig, kind.name());
    let mut say = |at: &dyn ToTokens, what: String| errors.push(Error::new_spanned(at, what));
    if sig.asyncness.is_none() {
        say(&sig.fn_token, format!("`{name}` is for an `async fn`"));
    }
    if !sig.inputs.is_empty() {
        say(&sig.inputs, format!("a `{name}` function has no arguments"));
    }
    if !sig.generics.params.is_empty() {
        say(&sig.generics.params, format!("a `{name}` function cannot be generic"));
    }
    let second = function.attrs.iter().find(|attr| attr.path().is_ident("test"));
    if let Some(attr) = second.filter(|_| kind == Kind::Test) {
        say(attr, "the attribute makes it a test already".into());
    }
}

fn write(kind: Kind, function: &Function, options: &Options) -> TokenStream {
    let Function { attrs, vis, sig, body } = function;
    let (name, result) = (&sig.ident, &sig.output);
    let krate = &options.krate;
    let own = quote!(#krate::__macros);
    let test = (kind == Kind::Test).then(|| quote!(#[::core::prelude::v1::test]));
    let workers = options.workers.iter();
    let run = match (&options.local, &options.paused) {
        (None, None) => quote!(run),
        (None, Some(_)) => quote!(run_paused),
        (Some(_), None) => quote!(run_local),
        (Some(_), Some(_)) => quote!(run_local_paused),
    };
    let patience = match (kind, &options.shutdown) {
        (Kind::Test, _) => quote!(#own::NO_PATIENCE),
        (Kind::Main, None) => quote!(#own::PATIENCE),
        (Kind::Main, Some(patience)) => quote!(#patience),
    };
    // The `async fn` as it was, within the other: what is wrong in it is said of that.
    quote! {
        #(#attrs)*
        #test
        #vis fn #name() #result {
            #sig #body
            #own::#run(#own::builder() #(.workers(#workers))*, #patience, #name())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(kind: Kind, options: TokenStream, item: TokenStream) -> String {
        entry(kind, "filch_std", options, item).to_string()
    }

    #[test]
    fn errors_name_the_cause() {
        let right = || {
            quote!(
                async fn name() {}
            )
        };
        let cases = [
            (Kind::Main, quote!(threads = 2), right(), "`threads` is no option"),
            (Kind::Main, quote!(worker_threads = 2), right(), "it is `workers = ...` here"),
            (Kind::Main, quote!(workers), right(), "`workers` needs a number of workers"),
            (Kind::Main, quote!(workers = 1, workers = 2), right(), "set twice"),
            (Kind::Main, quote!(paused), right(), "is for tests"),
            (Kind::Test, quote!(paused = true), right(), "has no value"),
            (Kind::Test, quote!(shutdown = LONG), right(), "does not wait"),
            (Kind::Main, quote!(shutdown), right(), "`shutdown` needs a `Duration`"),
            (Kind::Main, quote!(local = true), right(), "has no value"),
            (Kind::Main, quote!(local, workers = 2), right(), "which has no other"),
            (Kind::Main, quote!(flavor = "current_thread"), right(), "`local` is one thread"),
            (
                Kind::Test,
                quote!(),
                quote!(
                    fn name() {}
                ),
                "`test` is for an `async fn`",
            ),
            (
                Kind::Main,
                quote!(),
                quote!(
                    async fn name(a: u8) {}
                ),
                "no arguments",
            ),
            (
                Kind::Main,
                quote!(),
                quote!(
                    async fn name<T>() {}
                ),
                "cannot be generic",
            ),
            (
                Kind::Test,
                quote!(),
                quote!(
                    #[test]
                    async fn name() {}
                ),
                "a test already",
            ),
            (
                Kind::Main,
                quote!(),
                quote!(
                    struct Name;
                ),
                "is for an `async fn`",
            ),
        ];
        for (kind, options, item, expected) in cases {
            let said = errors(kind, options, item);
            assert!(said.contains(expected) && said.contains("compile_error"), "{said}");
            assert!(!said.contains("run"), "it is written, too: {said}");
        }
        assert!(
            !errors(Kind::Test, quote!(workers = 2, paused), right()).contains("compile_error")
        );
    }
}
