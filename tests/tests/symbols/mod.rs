//! The names in comments: what a comment speaks of exists.
//!
//! A name in backticks that stands alone or looks like a symbol (`Type::method`, `snake_case`, `call()`, `CamelCase`,
//! `CONSTANT`) must be a token of the sources outside of comments and strings. If `Type` is one of ours, `method` must be
//! defined for it. A Rust file must be there, and some comment must define an invariant that others cite. A name that is
//! gone is not seen where another item has it; a path is, so comments had better name paths.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use crate::{
    comment,
    sources::{files, sources},
    tokens::{Token, begins_item, closing, header, tokens},
};

/// Folders whose comments are read. What their comments name is there too: a test may outlive what it names.
const CHECKED: &[&str] = &["core/src", "platform-std/src", "platform-io/src", "platform-linux/src"];

/// Names that no source has as a token: constants of the operating system (`*` stands for any end), items of the standard
/// library, names and paths of other crates, and what a macro of ours defines.
const FOREIGN: &[&str] = &[
    "ConnectionReset",
    "EMFILE",
    "ENFILE",
    "ENOBUFS",
    "ENOMEM",
    "EPOLL*",
    "IPV6_*",
    "IP_*",
    "LocalSet",
    "LOOM_MAX_PREEMPTIONS",
    "MSG_*",
    "O_*",
    "PATH",
    "README",
    "Router",
    "SIG*",
    "SO_*",
    "Stdout::flush",
    "TCP_*",
    "TIME_WAIT",
    "Upgraded",
    "axum",
    "block_in_place",
    "current_thread",
    "exec",
    "getaddrinfo",
    "epoll_pwait2",
    "filch_linux",
    "hyper",
    "io::Error",
    "pre_exec",
    "server",
    "somaxconn",
    "service_fn",
    "tcp_keepalive_*",
    "tokio",
];

/// What the sources define.
#[derive(Default)]
struct Names {
    tokens: BTreeSet<String>,
    /// Types, traits and modules.
    ours: BTreeSet<String>,
    /// The members of a type or trait, and of a module, which has all tokens of its files.
    members: BTreeMap<String, BTreeSet<String>>,
    /// The traits of a type.
    traits: BTreeMap<String, BTreeSet<String>>,
    files: BTreeSet<PathBuf>,
    invariants: BTreeSet<String>,
}

impl Names {
    fn of_workspace() -> Self {
        let mut names = Self::default();
        // The planted bugs have names too.
        for (path, _) in files("core/mutants", "patch") {
            names.tokens.insert(path.file_stem().unwrap().to_str().unwrap().to_owned());
        }
        for folder in CHECKED {
            for (path, source) in sources(folder) {
                names.add(&Path::new(folder).join(path), &source);
            }
        }
        names
    }

    fn add(&mut self, path: &Path, source: &str) {
        let tokens = tokens(source);
        let all = || tokens.iter().map(|t| t.text.to_owned());
        self.tokens.extend(all());
        if let Some(path) = CHECKED.iter().find_map(|folder| path.strip_prefix(folder).ok()) {
            let module = path.with_extension("");
            let modules: Vec<_> = module.iter().map(|m| m.to_str().unwrap().to_owned()).collect();
            for module in &modules {
                self.ours.insert(module.clone());
                let members = self.members.entry(module.clone()).or_default();
                members.extend(all().chain(modules.iter().cloned()));
            }
            for at in 0..tokens.len() {
                self.add_item(&tokens, at);
            }
        }
        for text in source.lines().filter_map(comment).filter(|text| !text.contains("SAFETY:")) {
            let defined = invariants(text).filter(|(_, rest)| rest.starts_with(':'));
            self.invariants.extend(defined.map(|(name, _)| name.to_owned()));
        }
        self.files.insert(path.to_owned());
    }

    /// The item that begins at a token, if one does: its name, and the names of its members.
    fn add_item(&mut self, tokens: &[Token<'_>], at: usize) {
        let kind = tokens[at].text;
        if !begins_item(tokens, at)
            || !matches!(kind, "impl" | "trait" | "struct" | "enum" | "union")
        {
            return;
        }
        let (path, body) = header(&tokens[at + 1..]);
        let Some(owner) = path.last() else { return };
        let body = &tokens[at + 1 + body..];
        if kind != "impl" {
            self.ours.insert((*owner).to_owned());
        }
        let members = self.members.entry((*owner).to_owned()).or_default();
        let end = closing(body);
        for (i, token) in body[..end].iter().enumerate() {
            let defines = i > 0 && matches!(body[i - 1].text, "fn" | "const" | "type");
            if defines || matches!(kind, "struct" | "enum" | "union") {
                members.insert(token.text.to_owned());
            }
        }
        if let [of, _] = path[..] {
            self.traits.entry((*owner).to_owned()).or_default().insert(of.to_owned());
        }
    }

    /// Whether a path of two names exists. Of a foreign type, any token may be a member.
    fn has_member(&self, owner: &str, member: &str) -> bool {
        let is_of =
            |owner: &str| self.members.get(owner).is_some_and(|names| names.contains(member));
        let traits = self.traits.get(owner);
        !self.ours.contains(owner)
            || is_of(owner)
            || traits.is_some_and(|traits| traits.iter().any(|of| is_of(of)))
    }

    /// What a comment speaks of and does not exist.
    fn missing(&self, text: &str) -> Vec<String> {
        let mut missing = Vec::new();
        for span in text.split('`').skip(1).step_by(2) {
            if let Some(file) = span.split(':').next().filter(|file| file.ends_with(".rs")) {
                if !self.files.iter().any(|path| path.ends_with(file)) {
                    missing.push(file.to_owned());
                }
                continue;
            }
            self.missing_in(&tokens(span), &mut missing);
        }
        let undefined = invariants(text).filter(|(name, _)| !self.invariants.contains(*name));
        missing.extend(undefined.map(|(name, _)| name.to_owned()));
        missing
    }

    fn missing_in(&self, span: &[Token<'_>], missing: &mut Vec<String>) {
        let known = |name: &str| self.tokens.contains(name) || self.ours.contains(name);
        let at = |i: usize| span.get(i).map_or("", |token| token.text);
        let mut foreign = false;
        for (i, token) in span.iter().enumerate() {
            let name = token.text;
            let has_owner = i > 0 && at(i - 1) == "::";
            let in_path = at(i + 1) == "::" || has_owner;
            // With all that its path leads to.
            foreign = is_foreign(name) || foreign && (has_owner || name == "::");
            if foreign {
                continue;
            }
            let called = at(i + 1) == "(";
            let alone = span.len() == 1 && name.len() > 1;
            let is_name = alone || in_path || called || is_symbol(name);
            if !name.starts_with(char::is_alphabetic) || !is_name {
                continue;
            }
            if !known(name) {
                missing.push(name.to_owned());
                continue;
            }
            let (member, path) = (at(i + 2), format!("{name}::{}", at(i + 2)));
            if at(i + 1) == "::" && known(member) && !self.has_member(name, member) {
                missing.extend((!is_foreign(&path)).then_some(path));
            }
        }
    }
}

fn is_foreign(name: &str) -> bool {
    FOREIGN.iter().any(|known| match known.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => name == *known,
    })
}

/// Whether a name looks like a symbol: `snake_case`, `CamelCase`, `CONSTANT`.
fn is_symbol(name: &str) -> bool {
    name.len() > 1 && (name.contains('_') || name.starts_with(char::is_uppercase))
}

/// The invariants that a text names, and what stands behind each.
fn invariants(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices("INV-").map(|(at, _)| {
        let rest = &text[at..];
        let end = rest.find(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit() && c != '-');
        let name = rest[..end.unwrap_or(rest.len())].trim_end_matches('-');
        (name, &rest[name.len()..])
    })
}

/// The paragraphs of the comments: the line of the first, and the text. What stands between fences is code.
fn paragraphs(source: &str, is_markdown: bool) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut inside, mut fenced) = (false, false);
    for (n, line) in source.lines().enumerate() {
        let text = if is_markdown { Some(line) } else { comment(line) };
        let text = text.map(|t| t.trim_start_matches(['/', '!']).trim()).filter(|t| !t.is_empty());
        let fence = text.is_some_and(|t| t.starts_with("```"));
        fenced ^= fence;
        match text {
            Some(text) if !fence && !fenced => {
                if inside {
                    let (_, last) = found.last_mut().unwrap();
                    last.push('\n');
                    last.push_str(text);
                } else {
                    found.push((n + 1, text.to_owned()));
                }
                inside = true;
            }
            _ => inside = false,
        }
    }
    found
}

#[test]
fn comments_name_what_exists() {
    let names = Names::of_workspace();
    let (mut found, mut all) = (Vec::new(), String::new());
    for folder in CHECKED {
        for (path, source) in [files(folder, "rs"), files(folder, "md")].concat() {
            let is_markdown = path.extension().is_some_and(|e| e == "md");
            for (line, text) in paragraphs(&source, is_markdown) {
                let missing = names.missing(&text).into_iter();
                found.extend(missing.map(|m| format!("{folder}/{}:{line}: {m}", path.display())));
                all.push_str(&text);
            }
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
    for name in FOREIGN {
        assert!(all.contains(name.trim_end_matches('*')), "{name}: no comment names it any more");
    }
}

/// The check itself, on comments that name what is there, and what is gone.
#[test]
fn missing_names_are_seen() {
    let mut names = Names::default();
    names.add(
        Path::new("core/src/scheduler/idle.rs"),
        "/// INV-BIT: one context sets it.
        pub(crate) struct Idle<const WORKERS: usize> { bits: u64 }
        enum Step { Polled, Idle }
        impl<const WORKERS: usize> Idle<WORKERS> {
            const EMPTY: u64 = 0;
            // SAFETY: INV-CITED: cited, and not defined. `gone_in_comment`
            fn announce(&self) { log(\"gone_in_string\"); }
        }
        impl<T: Copy> Drop for Sleep<T> where T: Send { fn drop(&mut self) {} }
        trait Wake { fn wake_up(&self); }
        impl<'a> Wake for &'a Sleep<u8> {}
        struct Sleep<T>(T);
        fn look_again() {}",
    );
    let cases: &[(&str, &[&str])] = &[
        ("`Idle::announce`, `announce()`, `Idle::EMPTY`, `Step::Polled`, `idle::look_again`", &[]),
        ("`Idle::announce(true)`, [`Idle`](super::Idle), `Sleep::drop`, `Sleep::wake_up`", &[]),
        ("`scheduler/idle.rs`, `idle.rs`: announce_all() in plain text, INV-BIT", &[]),
        ("`SO_REUSEADDR`, `hyper::server::Builder`, `a -> b`, `0x1f`, `x`", &[]),
        ("the listener calls `Idle::retract`", &["retract"]),
        ("the listener calls `Idle::look_again`", &["Idle::look_again"]),
        ("`idle::forget` of `idle.rs`, `Sleep::announce`", &["forget", "Sleep::announce"]),
        ("`retract_all`, `retract()`, `retract`", &["retract_all", "retract", "retract"]),
        ("`WATCHERS`, `Watcher`, `gone_in_comment`", &["WATCHERS", "Watcher", "gone_in_comment"]),
        ("`gone_in_string`, `watchdog.rs`", &["gone_in_string", "watchdog.rs"]),
        ("a span `of\ntwo_lines` is one", &["two_lines"]),
        ("INV-BITS: and INV-CITED.", &["INV-BITS", "INV-CITED"]),
    ];
    for (text, wanted) in cases {
        assert_eq!(names.missing(text), *wanted, "{text}");
    }
}

/// What is a comment, and of which line.
#[test]
fn paragraphs_are_of_comments_without_code() {
    let source = "let x = `a`; // `b`\n\n/// `c\n/// d`\n///\n/// ```\n/// `e`\n/// ```\nfn f() {}";
    assert_eq!(paragraphs(source, false), [(1, "`b`".into()), (3, "`c\nd`".into())]);
    assert_eq!(paragraphs("# `a`\n\n```\n`b`\n```\n", true), [(1, "# `a`".into())]);
}
