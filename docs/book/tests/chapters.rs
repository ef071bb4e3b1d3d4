//! The book is whole: its chapters are listed, and its links lead somewhere. So do the links of the repository's other documents.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use filch_book::{INCLUDED, TESTED};

/// The text of a chapter.
fn source(name: &str) -> String {
    page(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(format!("{name}.md")))
}

/// The text of a page, or of the page that it includes.
fn page(path: &Path) -> String {
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    match text.strip_prefix("{{#include ") {
        Some(rest) => {
            let from = rest.trim_end().strip_suffix("}}").expect("an include and nothing else");
            page(&path.parent().expect("a folder").join(from))
        }
        None => text,
    }
}

/// The targets of all links of a page.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0))
}

/// A heading as mdBook names its anchor.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|&c| c.is_alphanumeric() || " -_".contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let mut code = false;
    let headings = text.lines().filter(move |line| {
        code ^= line.starts_with("```");
        !code && line.starts_with('#')
    });
    headings.map(|line| anchor(line.trim_start_matches('#'))).collect()
}

#[test]
fn the_summary_lists_each_chapter_once() {
    let summary = source("SUMMARY");
    let listed: Vec<&str> =
        links(&summary).map(|link| link.strip_suffix(".md").expect(link)).collect();
    let set: BTreeSet<&str> = listed.iter().copied().collect();
    assert_eq!(set.len(), listed.len(), "a chapter is listed twice: {listed:?}");
    let known: BTreeSet<&str> = TESTED.iter().chain(INCLUDED).copied().collect();
    assert_eq!(set, known, "SUMMARY.md and the lists of lib.rs differ");

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files: BTreeSet<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".md").map(String::from))
        .filter(|name| name != "SUMMARY")
        .collect();
    assert_eq!(
        files.iter().map(String::as_str).collect::<BTreeSet<_>>(),
        known,
        "files without a chapter"
    );
}

#[test]
fn links_lead_to_chapters_and_headings() {
    for name in TESTED.iter().chain(INCLUDED) {
        let text = source(name);
        for link in links(&text).filter(|link| !link.starts_with("https://")) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let there = match file.strip_suffix(".md") {
                Some(chapter) => {
                    let known = TESTED.iter().chain(INCLUDED).any(|known| *known == chapter);
                    assert!(known, "{name}: {link} leads out of the book: write the whole address");
                    source(chapter)
                }
                None if file.is_empty() => text.clone(),
                None => {
                    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
                    assert!(path.exists(), "{name}: there is no {link}");
                    continue;
                }
            };
            assert!(
                heading.is_empty() || anchors(&there).contains(heading),
                "{name}: {link} has no such heading"
            );
        }
    }
}

/// All pages of a folder and of those in it.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            if name != "target" && !name.starts_with('.') {
                pages(&entry.path(), found);
            }
        } else if name.ends_with(".md") {
            found.push(entry.path());
        }
    }
}

/// The repository on the web, whose files are those here.
const REPOSITORY: &[&str] = &[
    "https://github.com/filch-rs/filch/blob/main/",
    "https://github.com/filch-rs/filch/blob/HEAD/",
];

#[test]
fn links_of_all_documents_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    pages(&root, &mut found);
    assert!(found.len() > 30, "{} pages", found.len());
    // It becomes a part of a page in another folder.
    found.retain(|path| !path.ends_with("tests/ecosystem/src/head.md"));

    let mut wrong = Vec::new();
    for path in found {
        let text = page(&path);
        for link in links(&text) {
            let in_repository = REPOSITORY.iter().find_map(|address| link.strip_prefix(address));
            let (folder, link) = match in_repository {
                Some(link) => (root.as_path(), link),
                // Code has brackets too, but not such targets.
                None if link.contains(':') || link.contains(' ') => continue,
                None => (path.parent().expect("a folder"), link),
            };
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let there = if file.is_empty() { path.clone() } else { folder.join(file) };
            let is_right =
                there.exists() && (heading.is_empty() || anchors(&page(&there)).contains(heading));
            if !is_right {
                wrong.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_cookbook_counts_its_recipes() {
    let text = source("cookbook");
    let recipes = text.lines().filter(|line| line.starts_with("## ")).count();
    assert!(text.contains(&format!("{recipes} recipes.")), "there are {recipes}");
}
