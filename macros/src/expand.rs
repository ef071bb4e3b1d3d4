//! The code that the attribute writes.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::{
    Attribute, Error, Meta, Pat, PatType, ReturnType, Token, Type, punctuated::Punctuated,
    spanned::Spanned,
};

use crate::{function::Function, options::Options};

/// Attributes that stay on the function that makes the token. Others go to the `async fn` in it.
const OUTER: &[&str] =
    &["allow", "cfg", "deny", "deprecated", "doc", "expect", "forbid", "must_use", "warn"];

pub(crate) fn task(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Vec::new();
    let options = Options::read(options, &mut errors);
    let before = errors.len();
    let function = match syn::parse2::<Function>(item) {
        Ok(function) => {
            function.check(&mut errors);
            twice(&function.attrs, &options, &mut errors);
            Some(function)
        }
        Err(error) => {
            errors.push(error);
            None
        }
    };
    // Wrong options have their defaults here, so that only they are reported.
    let is_right = errors.len() == before;
    let written = function.filter(|_| is_right).map(|function| write(&function, &options));
    let errors = errors.iter().map(Error::to_compile_error);
    quote!(#(#errors)* #written)
}

/// The attribute again, which this one would hide from the compiler.
fn twice(attrs: &[Attribute], options: &Options, errors: &mut Vec<Error>) {
    let krate = &options.krate;
    let own = [quote!(task), quote!(filch::task), quote!(::filch::task), quote!(#krate::task)]
        .map(|path| path.to_string());
    for attr in attrs {
        if own.contains(&attr.path().to_token_stream().to_string()) {
            errors.push(Error::new_spanned(attr, "this function is a task already"));
        }
    }
}

fn write(function: &Function, options: &Options) -> TokenStream {
    let Function { attrs, vis, sig, body } = function;
    let (outer, inner): (Vec<_>, Vec<_>) = attrs.iter().partition(|attr| is_outer(&attr.meta));
    let (name, clause) = (&sig.ident, &sig.generics.where_clause);
    let (arguments, result, fn_token) = (&sig.inputs, &sig.output, &sig.fn_token);
    let names: Vec<_> =
        function.arguments().enumerate().map(|(i, argument)| name_of(i, argument)).collect();
    let types: Vec<_> = function.arguments().map(|argument| &argument.ty).collect();

    let krate = &options.krate;
    let own = quote!(#krate::__macros);
    let output = match result {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, never) if matches!(**never, Type::Never(_)) => quote!(#own::Never),
        ReturnType::Type(_, result) => result.to_token_stream(),
    };
    let send = (!options.local).then(|| quote!(+ #own::Send));
    // What is wrong with the future is said at the function's name.
    let here = |code| located_at(name.span(), code);
    let before = here(quote!(#krate::SpawnToken<impl #own::Future<Output =));
    let after = here(quote!(> #send + 'static>));
    let made = here(quote!(__FILCH_MEMORY.token(__filch_task(#(#names),*))));
    // A closure that is never called, for the type of the future that it would return.
    let any = names.iter().map(|_| quote!(#own::any()));
    let future = quote!(&|| __filch_task(#(#any),*));
    let size = &options.pool_size;
    // Where the compiler says that it is zero.
    let slots = located_at(size.span(), quote!(#own::StaticTasks::vacant()));
    // The `async fn` is within the other function, where lints that are set for that one hold for it, and no name is
    // added to the module. Clippy counts the arguments of that one.
    quote! {
        #(#outer)*
        #vis #fn_token #name(
            #(#names: #types),*
        ) -> #before #output #after #clause {
            #(#inner)*
            #[allow(clippy::too_many_arguments)]
            async fn __filch_task(#arguments) #result #clause #body

            const __FILCH_SLOTS: #own::usize = #size;
            static __FILCH_TASKS: #own::StaticTasks<
                { #own::slot_size(#future) },
                { #own::slot_align(#future) },
                __FILCH_SLOTS,
            > = #slots;
            // Its type has no size in it.
            static __FILCH_MEMORY: #own::Slots = __FILCH_TASKS.slots();
            #made
        }
    }
}

/// An attribute under a condition goes where it would go without.
fn is_outer(attr: &Meta) -> bool {
    if !attr.path().is_ident("cfg_attr") {
        return OUTER.iter().any(|name| attr.path().is_ident(name));
    }
    let Meta::List(list) = attr else { return true };
    let parse = Punctuated::<Meta, Token![,]>::parse_terminated;
    list.parse_args_with(parse).is_ok_and(|all| all.iter().skip(1).all(is_outer))
}

/// The same code, which the compiler shows at this place.
fn located_at(span: Span, code: TokenStream) -> TokenStream {
    let move_to = |mut token: TokenTree| {
        token.set_span(token.span().located_at(span));
        token
    };
    code.into_iter().map(move_to).collect()
}

/// The name of an argument outside of the `async fn`: its own, unless it is a pattern.
fn name_of(i: usize, argument: &PatType) -> Ident {
    match &*argument.pat {
        Pat::Ident(own) if own.by_ref.is_none() && own.subpat.is_none() => own.ident.clone(),
        _ => format_ident!("argument{i}", span = Span::mixed_site()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identifiers(code: TokenStream, found: &mut Vec<String>) {
        for token in code {
            match token {
                TokenTree::Ident(ident) => found.push(ident.to_string()),
                TokenTree::Group(group) => identifiers(group.stream(), found),
                _ => {}
            }
        }
    }

    /// What generated code may name: keywords, the path of the crate and what is in it, and itself. All else could mean
    /// something else where the function is.
    #[test]
    fn no_name_depends_on_the_place() {
        const OWN: &[&str] = &[
            "__macros",
            "SpawnToken",
            "Future",
            "Output",
            "Send",
            "Never",
            "StaticTasks",
            "Slots",
            "usize",
            "any",
            "vacant",
            "slots",
            "slot_size",
            "slot_align",
            "token",
        ];
        const KEYWORDS: &[&str] =
            &["allow", "clippy", "too_many_arguments", "async", "const", "fn", "impl", "static"];
        let code = task(
            quote!(crate = given::path, pool_size = 0x10),
            quote!(
                async fn name(a: A, _: B, (c, d): C) -> ! {
                    body
                }
            ),
        );
        let mut found = Vec::new();
        identifiers(code.clone(), &mut found);
        assert!(!found.contains(&"compile_error".to_owned()), "{code}");
        for ident in found {
            let is_given = ["given", "path", "name", "a", "A", "B", "c", "d", "C", "body", "_"];
            let is_known = is_given.contains(&ident.as_str())
                || OWN.contains(&ident.as_str())
                || KEYWORDS.contains(&ident.as_str());
            let is_own = ident.starts_with("__filch") || ident.starts_with("__FILCH");
            let is_local = matches!(ident.as_str(), "argument1" | "argument2" | "static");
            assert!(is_known || is_own || is_local, "`{ident}` in {code}");
        }
    }
}
