//! The files of a room: each uses those below it, by calls as well as by imports.
//!
//! A call is resolved where its type is written, or is that of `self`, or where one file of the rooms alone defines the name
//! and no other file of the core does; other calls are not seen. A trait's method belongs to the file of the trait, so a file
//! may call what lies above it through a trait of its own.

mod order;

use std::collections::{BTreeMap, BTreeSet};

use order::{BESIDE, ROOMS};

use crate::{
    is_test_file, module_of, paths,
    sources::sources,
    tokens::{Token, begins_item, closing, header, tokens},
};

/// Methods of the language's types that a room defines too: a call of one counts only where its type is known.
const COMMON: &[&str] = &["clone", "default", "drop", "find", "fmt", "is_none", "new", "scan"];

/// A source, without what only tests have.
struct File<'a> {
    path: String,
    tokens: Vec<Token<'a>>,
    /// The type of the `impl` or `trait` around each token, and whether that is an `impl` of a trait.
    around: Vec<Option<(&'a str, bool)>>,
}

impl<'a> File<'a> {
    fn new(path: &str, source: &'a str) -> Self {
        let tokens = without_tests(tokens(source));
        let mut around = vec![None; tokens.len()];
        for at in 0..tokens.len() {
            if !begins_item(&tokens, at) || !matches!(tokens[at].text, "impl" | "trait") {
                continue;
            }
            let (names, body) = header(&tokens[at + 1..]);
            let body = at + 1 + body;
            if let Some(owner) = names.last() {
                let end = body + closing(&tokens[body..]);
                around[body..end].fill(Some((*owner, names.len() > 1)));
            }
        }
        Self { path: path.to_owned(), tokens, around }
    }

    fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    /// The functions that it defines, each with its type if it has one. Those of a trait's `impl` are the trait's.
    fn functions(&self) -> impl Iterator<Item = (Option<&'a str>, &'a str)> {
        (0..self.tokens.len()).filter_map(|at| {
            let owner = self.around[at];
            let is_own = self.text(at) == "fn" && owner.is_none_or(|(_, of_trait)| !of_trait);
            let name = self.text(at + 1);
            (is_own && name.starts_with(|c: char| c.is_alphabetic() || c == '_'))
                .then_some((owner.map(|(owner, _)| owner), name))
        })
    }
}

/// Leaves out items under `#[cfg(test)]`, also among other conditions.
fn without_tests(tokens: Vec<Token<'_>>) -> Vec<Token<'_>> {
    let mut left = Vec::new();
    let mut until = 0;
    for at in 0..tokens.len() {
        if at < until {
            continue;
        }
        let text = |i: usize| tokens.get(i).map_or("", |token| token.text);
        if text(at) == "#" && text(at + 1) == "[" && text(at + 2) == "cfg" {
            let end = at + (at..tokens.len()).take_while(|i| text(*i) != "]").count();
            let of_test = (at..end).any(|i| text(i) == "test" && text(i - 2) != "not");
            let item = (end..tokens.len()).find(|i| matches!(text(*i), "{" | ";"));
            if let (true, Some(item)) = (of_test, item) {
                until = item + closing(&tokens[item..]) + 1;
                continue;
            }
        }
        left.push(at);
    }
    let mut tokens: Vec<_> = tokens.into_iter().map(Some).collect();
    left.into_iter().filter_map(|at| tokens[at].take()).collect()
}

/// Where a function is defined: its file, and its type if it has one.
type Place<'a> = (usize, Option<&'a str>);

/// The files of the rooms, in order, and the names that the rest of the core defines.
struct Rooms<'a> {
    files: Vec<File<'a>>,
    defined: BTreeMap<&'a str, BTreeSet<Place<'a>>>,
    foreign: BTreeSet<&'a str>,
}

impl<'a> Rooms<'a> {
    fn new(order: &[&str], sources: &'a [(String, String)]) -> Self {
        let mut files = Vec::new();
        let mut foreign = BTreeSet::from_iter(COMMON.iter().copied());
        for path in order {
            let source = sources.iter().find(|(other, _)| other == path);
            let (_, source) = source.unwrap_or_else(|| panic!("{path} is not there"));
            files.push(File::new(path, source));
        }
        for (path, source) in sources {
            if !order.contains(&path.as_str()) {
                foreign.extend(File::new(path, source).functions().map(|(_, name)| name));
            }
        }
        let mut defined: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (i, file) in files.iter().enumerate() {
            for (owner, name) in file.functions() {
                defined.entry(name).or_default().insert((i, owner));
            }
        }
        Self { files, defined, foreign }
    }

    /// Uses of files: of which, by which, and the name. Upward ones are violations.
    fn uses(&self) -> BTreeSet<(usize, usize, String)> {
        let mut found = BTreeSet::new();
        for (by, file) in self.files.iter().enumerate() {
            for at in 0..file.tokens.len() {
                let called = self.called(file, at).map(|of| (of, file.text(at).to_owned()));
                let used = called.into_iter().chain(self.imported(file, at));
                found.extend(used.filter(|(of, _)| *of != by).map(|(of, name)| (by, of, name)));
            }
        }
        found
    }

    /// The file of the function that is named at a token, after `.` or `::`.
    fn called(&self, file: &File<'a>, at: usize) -> Option<usize> {
        let before = |n: usize| at.checked_sub(n).map_or("", |i| file.text(i));
        let places = self.defined.get(file.text(at))?;
        let own = file.around[at].map(|(owner, _)| owner);
        let one = |wanted: &dyn Fn(&Place<'_>) -> bool| {
            let files: BTreeSet<_> = places.iter().filter(|p| wanted(p)).map(|p| p.0).collect();
            (files.len() == 1).then(|| files.first().copied()).flatten()
        };
        match (before(2), before(1)) {
            ("Self", "::") => one(&|place| place.1 == own),
            // A function of a type or of a module.
            (of, "::") => one(&|place| match place.1 {
                Some(owner) => owner == of,
                None => self.files[place.0].path.ends_with(&format!("/{of}.rs")),
            }),
            (receiver, ".") => {
                let is_call = file.text(at + 1) == "(" || file.text(at + 1) == "::";
                let of_self = receiver == "self" && before(3) != ".";
                let by_type = of_self.then(|| one(&|place| place.1 == own)).flatten();
                let by_name = || one(&|_| !self.foreign.contains(file.text(at)));
                if is_call { by_type.or_else(by_name) } else { None }
            }
            _ => None,
        }
    }

    /// The files that a path leads to which begins at a token, and the name behind each.
    fn imported(&self, file: &File<'a>, at: usize) -> Vec<(usize, String)> {
        let begins = at == 0 || file.text(at - 1) != "::";
        if !begins || !matches!(file.text(at), "crate" | "super") || file.text(at + 1) != "::" {
            return Vec::new();
        }
        let lead = |path: Vec<String>| {
            let mut module = module_of(file.path.as_ref());
            let mut names = path.into_iter().peekable();
            if names.next_if(|name| name == "crate").is_some() {
                module.clear();
            }
            while names.next_if(|name| name == "super").is_some() {
                module.pop();
            }
            module.extend(names);
            (1..=module.len()).rev().find_map(|length| {
                let path = format!("{}.rs", module[..length].join("/"));
                let of = self.files.iter().position(|file| file.path == path)?;
                Some((of, module[length..].join("::")))
            })
        };
        paths(&file.tokens, at).into_iter().filter_map(lead).collect()
    }
}

/// The files of the core, but for models and tests.
fn core() -> Vec<(String, String)> {
    let ours = sources("core/src").into_iter().filter(|(path, _)| !is_test_file(path));
    ours.map(|(path, source)| (path.to_str().unwrap().to_owned(), source)).collect()
}

/// The paths of the files, lowest first.
fn order() -> Vec<String> {
    let of_room = |(room, names): &(&str, &[&str])| {
        names.iter().map(|name| format!("{room}/{name}.rs")).collect::<Vec<_>>()
    };
    ROOMS.iter().flat_map(of_room).collect()
}

/// The uses of higher files, a line each.
fn upward(rooms: &Rooms<'_>) -> Vec<String> {
    let path = |file: usize| rooms.files[file].path.as_str();
    let upward = rooms.uses().into_iter().filter(|(by, of, _)| of > by);
    upward.map(|(by, of, name)| format!("{} uses {name} of {}", path(by), path(of))).collect()
}

/// A file that uses a higher one makes a circle with the files between them.
#[test]
fn files_of_rooms_use_lower_files_only() {
    let (sources, order) = (core(), order());
    let order: Vec<_> = order.iter().map(String::as_str).collect();
    for (path, _) in &sources {
        let (room, _) = path.split_once('/').unwrap_or(("", path));
        let is_in_room = ROOMS.iter().any(|(other, _)| *other == room) && !path.ends_with("mod.rs");
        let times = order.iter().filter(|other| *other == path).count();
        assert_eq!(times, usize::from(is_in_room), "{path}: how often `calls/order.rs` has it");
    }
    let found = upward(&Rooms::new(&order, &sources));
    assert!(found.is_empty(), "lower files may not use higher ones:\n{}", found.join("\n"));
}

/// The room beside the path of a task that a file is in, if it is in one.
fn beside(path: &str) -> Option<&str> {
    let room = path.strip_prefix("scheduler/")?.split('/').next()?;
    BESIDE.contains(&room).then_some(room)
}

/// The uses of rooms beside the path of a task by other rooms, a line each. What all rooms rest on (`config`, `core`, `state`, `upkeep`) uses none;
/// what stands above them (`turn`, `erased`) may use all.
fn across(rooms: &Rooms<'_>, above: &[&str]) -> Vec<String> {
    let path = |file: usize| rooms.files[file].path.as_str();
    let across = rooms.uses().into_iter().filter(|(by, of, _)| {
        beside(path(*of)).is_some()
            && beside(path(*of)) != beside(path(*by))
            && !above.contains(&path(*by))
    });
    across.map(|(by, of, name)| format!("{} uses {name} of {}", path(by), path(of))).collect()
}

/// The path of a task reaches what is beside it by the traits of `core/faces.rs` alone.
#[test]
fn rooms_of_the_scheduler_use_no_other_room() {
    let (sources, order) = (core(), order());
    let order: Vec<_> = order.iter().map(String::as_str).collect();
    let found = across(
        &Rooms::new(&order, &sources),
        &["scheduler/turn.rs", "scheduler/erased.rs", "scheduler/snapshot.rs"],
    );
    assert!(found.is_empty(), "a room may not use another one:\n{}", found.join("\n"));
}

/// The check itself.
#[test]
fn uses_across_rooms_are_seen() {
    let named = |path: &str, source: &str| (path.to_owned(), source.to_owned());
    let sources = [
        named("scheduler/core/find.rs", "impl Worker { fn find(&self) { self.take_affine() } }"),
        named("scheduler/waits/help.rs", "use crate::scheduler::placement::affine::Hints;"),
        named("scheduler/placement/affine.rs", "impl Worker { fn take_affine(&self) {} }"),
        named(
            "scheduler/placement/dispatch.rs",
            "impl Worker { fn look(&self) { self.take_affine() } }",
        ),
        named("scheduler/erased.rs", "fn f() { x.take_affine() }"),
    ];
    let order: Vec<_> = sources.iter().map(|(path, _)| path.as_str()).collect();
    let found = across(&Rooms::new(&order, &sources), &["scheduler/erased.rs"]);
    let wanted = [
        "scheduler/core/find.rs uses take_affine of scheduler/placement/affine.rs",
        "scheduler/waits/help.rs uses Hints of scheduler/placement/affine.rs",
    ];
    assert_eq!(found, wanted);
}

/// The check itself, on files whose lower one uses the higher one.
#[test]
fn upward_uses_are_seen() {
    let top = "pub(crate) struct Top<const N: usize>; pub(crate) fn free() {}
        impl<const N: usize> Top<N> { fn high(&self) { self.low_of_base() } fn len(&self) {} }
        impl Base { fn on_top(&self) {} }
        impl Wake for Top<1> { fn wake(&self) { free() } }";
    let cases: &[(&str, &[&str])] = &[
        ("use super::base::x; fn f(x: &X) { x.low(); x.len(); x.unknown(); Top }", &[]),
        ("use super::top::Top;", &["Top"]),
        ("use super::{base::a, top::{free, Top as T}};", &["Top", "free"]),
        ("use crate::room::top;", &[""]),
        ("fn f() { super::top::free() }", &["free"]),
        ("fn f() { x.high() }", &["high"]),
        ("fn f() { self.field.high::<8>(u) }", &["high"]),
        ("fn f() { x.high }", &[]),
        ("fn f() { top::free(); Other::high() }", &["free"]),
        ("const F: fn() = Top::len;", &["len"]),
        ("impl Base { fn f(&self) { self.on_top() } }", &["on_top"]),
        ("impl Base { const F: fn() = Self::on_top; }", &["on_top"]),
        ("impl Base { fn f(&self) { self.low(); self.field.len() } fn low(&self) {} }", &[]),
        // Of a trait of its own, and of what the rest of the core defines too.
        ("trait Wake { fn wake(&self); } fn f(x: &impl Wake) { x.wake() }", &[]),
        ("fn f() { x.push() }", &[]),
        ("// x.high()\nconst S: &str = \"x.high()\";", &[]),
        ("#[cfg(all(test, filch_loom))] mod tests { fn f() { x.high() } } fn g() {}", &[]),
        ("#[cfg(test)] use super::top::Top; fn f() { x.high() }", &["high"]),
        ("#[cfg(not(test))] fn f() { x.high() }", &["high"]),
    ];
    for (base, wanted) in cases {
        let named = |path: &str, source: &str| (path.to_owned(), source.to_owned());
        let sources = [
            named("queue.rs", "impl Queue { fn push(&self) {} fn len(&self) {} }"),
            named("room/top.rs", &format!("{top} impl Top<2> {{ fn push(&self) {{}} }}")),
            named("room/base.rs", base),
        ];
        let found = upward(&Rooms::new(&["room/base.rs", "room/top.rs"], &sources));
        let wanted: Vec<_> =
            wanted.iter().map(|name| format!("room/base.rs uses {name} of room/top.rs")).collect();
        assert_eq!(found, wanted, "{base}");
    }
}
