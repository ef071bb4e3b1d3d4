//! The header is that of the sources.

use std::{fs, path::Path};

/// The sources, in the order of the header.
const ORDER: &[&str] = &[
    "layout",
    "status",
    "platform",
    "executor",
    "task",
    "waker",
    "time",
    "readiness",
    "worker",
    "metrics",
];

/// Constants that depend on a cfg are written once for each of their values, each time with all values.
fn without_repetition(header: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for paragraph in header.split("\n\n") {
        if !(paragraph.starts_with("#if defined(FILCH_") && kept.contains(&paragraph)) {
            kept.push(paragraph);
        }
    }
    kept.join("\n\n")
}

#[test]
fn all_sources_with_functions_are_in_the_header() {
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_in = ORDER.contains(&name);
        let exports = fs::read_to_string(&path).unwrap().contains("unsafe(no_mangle)");
        assert!(is_in || !exports, "{name}.rs is missing in ORDER");
    }
}

/// Makes the header of the sources, and compares. FILCH_HEADER=write writes it.
#[test]
fn the_header_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let builder = ORDER.iter().fold(cbindgen::Builder::new(), |builder, name| {
        builder.with_src(root.join("src").join(name).with_extension("rs"))
    });
    let mut made = Vec::new();
    builder.with_config(config).generate().unwrap().write(&mut made);
    let made = without_repetition(&String::from_utf8(made).unwrap());
    let path = root.join("include/filch.h");
    if std::env::var_os("FILCH_HEADER").is_some_and(|value| value == "write") {
        fs::write(&path, &made).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let difference = made.lines().zip(committed.lines()).enumerate().find(|(_, (a, b))| a != b);
    assert!(
        made == committed,
        "include/filch.h is not that of the sources; make it by `FILCH_HEADER=write cargo test -p filch-c --test header`; \
         first difference: {difference:?}"
    );
}
