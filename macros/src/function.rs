//! The function below the attribute, and what is wrong with it.

use proc_macro2::TokenTree;
use quote::ToTokens;
use syn::{
    Attribute, Error, Expr, FnArg, Lifetime, ParenthesizedGenericArguments, PatType, Safety,
    Signature, Token, TraitBound, TypeFnPtr, TypeImplTrait, TypeReference, Visibility,
    parse::{Parse, ParseStream},
    token,
    visit::{self, Visit},
};

/// A function whose body is not read: what is wrong there, the compiler says.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    pub(crate) body: TokenTree,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        if !is_function(input)? {
            return Err(input.error("the attribute is for an `async fn`"));
        }
        let sig = input.parse()?;
        if !input.peek(token::Brace) {
            return Err(input.error("the function needs a body"));
        }
        Ok(Self { attrs, vis, sig, body: input.parse()? })
    }
}

/// Whether `fn` comes next, behind any words that may stand before it.
fn is_function(input: ParseStream<'_>) -> syn::Result<bool> {
    let ahead = input.fork();
    while ahead.peek(Token![const])
        || ahead.peek(Token![async])
        || ahead.peek(Token![unsafe])
        || ahead.peek(Token![extern])
        || ahead.peek(syn::LitStr)
    {
        ahead.parse::<TokenTree>()?;
    }
    Ok(ahead.peek(Token![fn]))
}

impl Function {
    /// The arguments. `check` refuses the receiver, which is none of them.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &PatType> {
        self.sig.inputs.iter().filter_map(|argument| match argument {
            FnArg::Typed(argument) => Some(argument),
            FnArg::Receiver(_) => None,
        })
    }

    /// Adds what is wrong to `errors`, each at its own token.
    pub(crate) fn check(&self, errors: &mut Vec<Error>) {
        let sig = &self.sig;
        let mut say = |at: &dyn ToTokens, what: &str| errors.push(Error::new_spanned(at, what));
        if sig.asyncness.is_none() {
            say(&sig.fn_token, "a task is an `async fn`");
        }
        if let Some(token) = &sig.constness {
            say(token, "a task cannot be `const`");
        }
        if let Safety::Unsafe(token) = &sig.safety {
            say(token, "a task cannot be `unsafe`: its spawn would be a safe call of it");
        }
        if let Some(abi) = &sig.abi {
            say(abi, "a task cannot be `extern`: it has Rust's own ABI");
        }
        if !sig.generics.params.is_empty() {
            say(
                &sig.generics.params,
                "a task cannot be generic: its static slots are for one type of future",
            );
        }
        if let Some(variadic) = &sig.variadic {
            say(&variadic.dots, "a task cannot be variadic");
        }
        for argument in &sig.inputs {
            check_argument(argument, errors);
        }
        let mut types = Types::OUTPUT;
        types.visit_return_type(&sig.output);
        errors.append(&mut types.errors);
    }
}

fn check_argument(argument: &FnArg, errors: &mut Vec<Error>) {
    let argument = match argument {
        FnArg::Receiver(receiver) => {
            let what = "a task has no `self`: pass the value as an argument";
            return errors.push(Error::new_spanned(receiver, what));
        }
        FnArg::Typed(argument) => argument,
    };
    for attr in &argument.attrs {
        if attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr") {
            let what = "a task's argument cannot depend on `cfg`: write the function twice";
            errors.push(Error::new_spanned(attr, what));
        }
    }
    let mut types = Types::ARGUMENT;
    types.visit_type(&argument.ty);
    errors.append(&mut types.errors);
}

/// Looks in types for what a task's signature must not contain.
struct Types {
    borrow: &'static str,
    /// What is wrong with an `impl Trait`, if anything is.
    anonymous: Option<&'static str>,
    errors: Vec<Error>,
}

impl Types {
    const ARGUMENT: Self = Self {
        borrow: "a task may outlive its caller: it borrows for `'static`, or takes the value",
        anonymous: Some("a task cannot be generic: name the type of the argument"),
        errors: Vec::new(),
    };

    const OUTPUT: Self = Self {
        borrow: "the output of a task may outlive all that it borrows for less than `'static`",
        anonymous: None,
        errors: Vec::new(),
    };
}

impl<'ast> Visit<'ast> for Types {
    fn visit_type_reference(&mut self, reference: &'ast TypeReference) {
        if reference.lifetime.is_none() {
            self.errors.push(Error::new(reference.and_token.span, self.borrow));
        }
        visit::visit_type_reference(self, reference);
    }

    fn visit_lifetime(&mut self, lifetime: &'ast Lifetime) {
        if lifetime.ident != "static" {
            self.errors.push(Error::new_spanned(lifetime, self.borrow));
        }
    }

    fn visit_type_impl_trait(&mut self, anonymous: &'ast TypeImplTrait) {
        match self.anonymous {
            Some(what) => self.errors.push(Error::new(anonymous.impl_token.span, what)),
            None => visit::visit_type_impl_trait(self, anonymous),
        }
    }

    // What these borrow, their calls borrow.

    fn visit_type_fn_ptr(&mut self, _: &'ast TypeFnPtr) {}

    fn visit_parenthesized_generic_arguments(&mut self, _: &'ast ParenthesizedGenericArguments) {}

    fn visit_trait_bound(&mut self, bound: &'ast TraitBound) {
        if bound.lifetimes.is_none() {
            visit::visit_trait_bound(self, bound);
        }
    }

    // The length of an array.
    fn visit_expr(&mut self, _: &'ast Expr) {}
}
