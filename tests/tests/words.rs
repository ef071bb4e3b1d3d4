//! The words of the core's comments, and the length of its files, by its sources.

mod sources;
mod symbols;
mod tokens;

use std::path::Path;

use sources::sources;

/// Words for persons. The subject of a comment is a worker, a task, a thread, a queue.
const PERSONS: &[&str] = &["who", "whoever", "whom", "somebody", "nobody"];

/// Folders of `core/src` that have not been rewritten yet.
const EXEMPT: &[&str] = &[];

/// Lines of code in a file at most: neither empty lines nor comments count.
const LONGEST: usize = 400;

/// Files that may be longer: lists of models, each to be read alone.
const LONGER: &[&str] = &[];

/// The comment in a line, if it has one. Strings of one line may contain slashes.
fn comment(line: &str) -> Option<&str> {
    let (mut in_string, mut escaped) = (false, false);
    for (i, c) in line.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            // Not the character.
            '"' if !line[..i].ends_with('\'') || !line[i + 1..].starts_with('\'') => {
                in_string = !in_string;
            }
            '/' if !in_string && line[i..].starts_with("//") => return Some(&line[i..]),
            _ => {}
        }
    }
    None
}

/// The lines whose comments have a word for a person, from 1, and the word.
fn persons(source: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (n, line) in source.lines().enumerate() {
        let words = comment(line).unwrap_or("").split(|c: char| !c.is_alphanumeric() && c != '_');
        let is_person = |word: &&str| PERSONS.iter().any(|p| word.eq_ignore_ascii_case(p));
        found.extend(words.filter(is_person).map(|word| (n + 1, word)));
    }
    found
}

/// How many lines have code.
fn code_lines(source: &str) -> usize {
    let is_code = |line: &&str| !line.is_empty() && !line.starts_with("//");
    source.lines().map(str::trim).filter(is_code).count()
}

fn is_exempt(path: &Path) -> bool {
    EXEMPT.iter().any(|folder| path.starts_with(folder))
}

#[test]
fn comments_of_the_core_are_about_workers_and_tasks() {
    let mut found = Vec::new();
    for (path, source) in sources("core/src") {
        if !is_exempt(&path) {
            let lines = persons(&source).into_iter();
            found.extend(lines.map(|(line, word)| format!("{}:{line}: {word}", path.display())));
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// The check itself, on lines with such words and without.
#[test]
fn persons_are_seen() {
    let cases = [
        ("/// The task, and who joins it.", 1),
        ("//! Who is woken, and by whom.", 2),
        ("    // Nobody: somebody, whoever.", 3),
        ("let waits = 1; // who waits", 1),
        ("let url = \"http://who\"; // nobody", 1),
        ("let quote = ('\"', 1); // who", 1),
        ("let escape = \"\\\"\"; // who", 1),
        ("let who = \"// nobody\";", 0),
        ("// whole, whose, `who_waits`, nobody_else", 0),
        ("fn who() {}", 0),
    ];
    for (line, wanted) in cases {
        let source = format!("\n{line}\n");
        let found = persons(&source);
        assert_eq!(found.len(), wanted, "{line}: {found:?}");
        assert!(found.iter().all(|(at, _)| *at == 2), "{line}: {found:?}");
    }
}

#[test]
fn exempt_folders_exist() {
    for folder in EXEMPT {
        assert!(sources("core/src").iter().any(|(path, _)| path.starts_with(folder)), "{folder}");
    }
}

#[test]
fn no_file_of_the_core_has_more_code_than_can_be_read_at_once() {
    assert_eq!(code_lines("//! Docs.\n\nfn f() {\n    // Why.\n    g() // How.\n}\n"), 3);
    for (path, source) in sources("core/src") {
        let lines = code_lines(&source);
        let is_longer = LONGER.iter().any(|longer| path == Path::new(longer));
        assert_eq!(lines > LONGEST, is_longer, "{}: {lines} lines of code", path.display());
    }
}
