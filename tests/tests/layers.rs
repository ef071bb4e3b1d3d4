//! The layers of the core, by its sources: which modules import which, which name the platform and
//! the atomics; that no modules of filch-std import each other in a circle; the length of files, and
//! the lines that unwrap.

mod calls;
mod sources;
mod tokens;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use sources::sources;
use tokens::{Token, tokens};

/// Modules of the core, lowest layer first. A module may use those of lower layers, and itself.
const LAYERS: &[&[&str]] = &[
    &["atomic", "bits", "class", "lock"],
    &["instant", "parts", "platform", "metrics", "trace"],
    &["task"],
    &["memory"],
    &["queue", "time", "io", "sleep", "watchdog"],
    &["fork"],
    &["scheduler"],
];

/// Uses within one layer that are part of the design: bit fields are fields of `atomic`'s word, and
/// `platform` is the public side of its layer.
const WITHIN: &[(&str, &str)] = &[
    ("bits", "atomic"),
    ("lock", "atomic"),
    ("platform", "instant"),
    ("platform", "trace"),
    ("trace", "instant"),
    ("metrics", "parts"),
];

/// Crates of atomics, which only `atomic` may name.
const ATOMICS: &[&str] =
    &["loom", "shuttle", "filch_weakmem", "portable_atomic", "atomic_polyfill"];

/// Models and unit tests in files of their own.
fn is_test_file(path: &Path) -> bool {
    let name = path.file_stem().unwrap().to_str().unwrap();
    name.starts_with("models") || name == "tests" || name.ends_with("_tests")
}

/// A file's module path: `task/join.rs` and `task/mod.rs` are in `task`.
fn module_of(path: &Path) -> Vec<String> {
    let mut parts: Vec<_> =
        path.with_extension("").iter().map(|p| p.to_str().unwrap().to_owned()).collect();
    if matches!(parts.last().unwrap().as_str(), "mod" | "lib") {
        parts.pop();
    }
    parts
}

/// The paths that begin at token `at`, groups expanded: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn paths(tokens: &[Token<'_>], at: usize) -> Vec<Vec<String>> {
    fn tree(tokens: &[Token<'_>], at: &mut usize, prefix: &[String], found: &mut Vec<Vec<String>>) {
        let mut path = prefix.to_vec();
        while let Some(token) = tokens.get(*at) {
            *at += 1;
            if token.text == "{" {
                while tokens.get(*at).is_some_and(|t| t.text != "}") {
                    tree(tokens, at, &path, found);
                    if tokens.get(*at).is_some_and(|t| t.text == ",") {
                        *at += 1;
                    }
                }
                *at += 1;
                return;
            }
            path.push(token.text.to_owned());
            if tokens.get(*at).is_none_or(|t| t.text != "::") {
                break;
            }
            *at += 1;
        }
        // `as name`.
        while tokens.get(*at).is_some_and(|t| !matches!(t.text, "," | "}" | ";"))
            && !prefix.is_empty()
        {
            *at += 1;
        }
        found.push(path);
    }
    let (mut at, mut found) = (at, Vec::new());
    tree(tokens, &mut at, &[], &mut found);
    found
}

/// Calls `visit` for each token with the names of the inline modules around it.
fn in_modules<'a>(tokens: &[Token<'a>], mut visit: impl FnMut(usize, &[&'a str])) {
    let (mut depth, mut modules, mut names) = (0, Vec::new(), Vec::new());
    for (i, token) in tokens.iter().enumerate() {
        visit(i, &names);
        match token.text {
            "{" => {
                if i >= 2 && tokens[i - 2].text == "mod" {
                    modules.push(depth);
                    names.push(tokens[i - 1].text);
                }
                depth += 1;
            }
            "}" => {
                depth -= 1;
                if modules.last() == Some(&depth) {
                    modules.pop();
                    names.pop();
                }
            }
            _ => {}
        }
    }
    assert_eq!(depth, 0, "the braces of a source are in pairs");
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// A path that begins with `crate` or `super`, in these modules, from the root on.
fn from_root(home: &[String], inside: &[&str], used: &[String]) -> Vec<String> {
    let mut module: Vec<String> =
        home.iter().cloned().chain(inside.iter().map(|m| (*m).to_owned())).collect();
    let mut names = used.iter().peekable();
    if names.next_if(|n| *n == "crate").is_some() {
        module.clear();
    }
    while names.next_if(|n| *n == "super").is_some() {
        module.pop();
    }
    module.extend(names.cloned());
    module
}

/// Violations of the layers in a source of the core.
fn trespasses(path: &Path, source: &str) -> Vec<String> {
    let home = module_of(path);
    let Some(top) = home.first() else { return Vec::new() };
    let Some(own) = layer(top) else {
        return vec![format!("{}: module `{top}` is in no layer", path.display())];
    };
    let tokens = tokens(source);
    let mut found = BTreeSet::new();
    let mut say = |token: &Token<'_>, what: String| {
        found.insert((token.line, what));
    };
    in_modules(&tokens, |i, inside| {
        let token = &tokens[i];
        let after = |n: usize| tokens.get(i + n).map_or("", |t| t.text);
        let begins = i == 0 || tokens[i - 1].text != "::";
        if begins && matches!(token.text, "crate" | "super") && after(1) == "::" {
            for used in paths(&tokens, i) {
                let module = from_root(&home, inside, &used);
                let target = module.first().map_or("", String::as_str);
                match layer(target) {
                    _ if target == top => {}
                    Some(other) if other < own => {}
                    Some(_) if WITHIN.contains(&(top.as_str(), target)) => {}
                    Some(_) => say(token, format!("`{top}` may not use `{}`", module.join("::"))),
                    None => say(token, format!("`{}` is in no layer", module.join("::"))),
                }
            }
        }
        if token.text == "Platform" && !matches!(top.as_str(), "platform" | "scheduler") {
            say(token, "only `scheduler` may name `Platform`".into());
        }
        if top != "atomic" && !is_test_file(path) {
            let atomic = ATOMICS.contains(&token.text) && after(1) == "::"
                || token.text == "sync" && after(1) == "::" && after(2) == "atomic";
            if (begins || token.text == "sync") && atomic {
                say(token, "only `atomic` may name a crate's or the language's atomics".into());
            }
        }
    });
    found.into_iter().map(|(line, what)| format!("{}:{line}: {what}", path.display())).collect()
}

#[test]
fn modules_of_the_core_import_lower_layers_only() {
    let mut found = Vec::new();
    for (path, source) in sources("core/src") {
        if !is_test_file(&path) {
            found.extend(trespasses(&path, &source));
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// The check itself, on sources that violate the layers.
#[test]
fn trespasses_are_seen() {
    let cases = [
        ("task/join.rs", "use crate::{atomic::X, queue::{ring::Ring, chain as c}};", 2),
        ("task/join.rs", "use crate::{atomic::X, bits::Y}; use super::state::Snapshot;", 0),
        ("task/join.rs", "use super::super::scheduler::idle::Idle;", 1),
        ("task/join.rs", "fn f() { crate::queue::ring::f() }", 1),
        (
            "task/join.rs",
            "// crate::queue\n/* crate::queue */ const S: &str = \"crate::queue\";",
            0,
        ),
        ("task/join.rs", "use crate::JoinHandle;", 1),
        ("task/join.rs", "fn f<P: Platform>() {}", 1),
        ("task/join.rs", "use core::sync::atomic::AtomicU32;", 1),
        ("task/join.rs", "use core::{sync::atomic::AtomicU32};", 1),
        ("task/join.rs", "use loom::thread;", 1),
        ("task/models.rs", "use loom::thread;", 0),
        ("scheduler/find.rs", "use crate::{platform::Platform, queue::ring::Ring};", 0),
        ("bits.rs", "mod tests { use super::*; }", 0),
        ("bits.rs", "mod tests { use super::super::task::header::Header; }", 1),
        ("bits.rs", "use super::task::Header;", 1),
        ("metrics.rs", "use crate::platform::WorkerId;", 1),
        ("stray.rs", "", 1),
    ];
    for (path, source, wanted) in cases {
        let found = trespasses(Path::new(path), source);
        assert_eq!(found.len(), wanted, "{path}: {source}: {found:?}");
    }
}

/// Circles in the imports of a crate's modules: the imports that are left when all modules are taken away that import none of
/// the others, or that none of the others imports. And imports by a name of the root, which would hide a circle.
fn circles(sources: &[(PathBuf, String)]) -> Vec<String> {
    let modules: BTreeSet<_> =
        sources.iter().filter_map(|(path, _)| module_of(path).into_iter().next()).collect();
    let (mut imports, mut found) = (BTreeMap::<_, BTreeSet<_>>::new(), Vec::new());
    for (path, source) in sources {
        let home = module_of(path);
        let Some(own) = home.first() else { continue };
        let tokens = tokens(source);
        in_modules(&tokens, |i, inside| {
            let before = i.checked_sub(1).map_or("", |before| tokens[before].text);
            let begins = matches!(tokens[i].text, "crate" | "super")
                && tokens.get(i + 1).is_some_and(|t| t.text == "::");
            // `$crate` is another crate's way to this one.
            if !begins || matches!(before, "::" | "$") || inside.contains(&"tests") {
                return;
            }
            for used in paths(&tokens, i) {
                let used = from_root(&home, inside, &used);
                match used.first().filter(|name| modules.contains(*name)) {
                    Some(module) if module == own => {}
                    Some(module) => {
                        imports.entry(own.clone()).or_default().insert(module.clone());
                    }
                    None => found.push(format!("`{own}` uses `{}` of the root", used.join("::"))),
                }
            }
        });
    }
    loop {
        let before = imports.len();
        let left: BTreeSet<_> = imports.keys().cloned().collect();
        imports.values_mut().for_each(|used| used.retain(|module| left.contains(module)));
        let used: BTreeSet<_> = imports.values().flatten().cloned().collect();
        imports.retain(|module, its| !its.is_empty() && used.contains(module));
        if imports.len() == before {
            break;
        }
    }
    found.extend(imports.iter().map(|(module, used)| format!("`{module}` uses {used:?}")));
    found
}

#[test]
fn modules_of_filch_std_import_each_other_in_no_circle() {
    let found = circles(&sources("platform-std/src"));
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// The check itself.
#[test]
fn circles_are_seen() {
    let circles = |sources: &[(&str, &str)]| {
        let own = |(path, source): &(&str, &str)| (PathBuf::from(path), (*source).to_owned());
        circles(&sources.iter().map(own).collect::<Vec<_>>()).len()
    };
    let root = ("lib.rs", "pub use crate::{a::A, b::B};");
    assert_eq!(
        circles(&[root, ("a.rs", "use crate::b::B;"), ("b.rs", "use super::c::C;"), ("c.rs", "")]),
        0
    );
    assert_eq!(
        circles(&[root, ("a.rs", "use crate::b;"), ("b.rs", "mod c { use super::super::a; }")]),
        2
    );
    assert_eq!(
        circles(&[
            ("a.rs", "use crate::b;"),
            ("b.rs", "use super::a;"),
            ("top.rs", "use crate::a;")
        ]),
        2
    );
    assert_eq!(
        circles(&[root, ("a.rs", "use crate::b;"), ("b/c.rs", "fn f() { crate::a::f() }")]),
        2
    );
    assert_eq!(circles(&[root, ("a.rs", "use crate::{b, a::c};"), ("b.rs", "use crate::A;")]), 1);
    assert_eq!(circles(&[("a.rs", "use crate::b;"), ("b.rs", "mod tests { use crate::a; }")]), 0);
    assert_eq!(circles(&[("a.rs", "use crate::b;"), ("b.rs", "$crate::a; // crate::a")]), 0);
}

#[test]
fn no_source_is_longer_than_500_lines() {
    for of in ["core/src", "platform-std/src"] {
        for (path, source) in sources(of) {
            // A model file is a list of tests, each to be read alone.
            if is_test_file(&path) {
                continue;
            }
            let lines = source.lines().count();
            assert!(lines <= 500, "{of}/{}: {lines} lines", path.display());
        }
    }
}

/// Lines with `.unwrap()` or `.expect(` outside tests.
fn unwraps(source: &str) -> Vec<usize> {
    let tokens = tokens(source);
    let mut found = Vec::new();
    in_modules(&tokens, |i, inside| {
        let named = matches!(tokens[i].text, "unwrap" | "expect");
        let called =
            i > 0 && tokens[i - 1].text == "." && tokens.get(i + 1).is_some_and(|t| t.text == "(");
        if named && called && !inside.contains(&"tests") {
            found.push(tokens[i].line);
        }
    });
    found
}

#[test]
fn nothing_outside_tests_unwraps() {
    assert_eq!(unwraps("fn f() { x\n.unwrap(); }\nmod tests { fn f() { x.expect(\"\") } }"), [2]);
    for of in ["core/src", "platform-std/src"] {
        for (path, source) in sources(of) {
            if !is_test_file(&path) {
                let found = unwraps(&source);
                assert!(found.is_empty(), "{of}/{}: lines {found:?}", path.display());
            }
        }
    }
}
