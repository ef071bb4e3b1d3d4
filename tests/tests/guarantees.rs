//! The tests that `docs/guarantees.md` names exist.

use std::{fs, path::Path};

#[test]
fn every_promise_has_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("docs/guarantees.md")).unwrap();
    // A name between backquotes that is a path of a source.
    let named = page.split('`').skip(1).step_by(2).filter(|name| name.contains(".rs"));
    let mut missing = Vec::new();
    let mut count = 0;
    for name in named {
        count += 1;
        let (file, test) = name.split_once("::").unwrap_or((name, ""));
        let source = fs::read_to_string(root.join(file)).unwrap_or_default();
        let there = match test {
            "" => !source.is_empty(),
            test => {
                source.contains(&format!("#[test]\nfn {test}()"))
                    || source.contains(&format!("    fn {test}()"))
            }
        };
        if !there {
            missing.push(name);
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(count > 40, "the page names {count} tests");
}
