//! Runs every target on its corpus, and on inputs generated here. Needs neither a fuzzer nor
//! nightly (`cargo test --no-default-features`).

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::{Path, PathBuf},
    process::Command,
};

/// Runs a target on an input, and names the input if it fails.
fn run(target: &str, name: &str, data: &[u8]) {
    let failed = catch_unwind(AssertUnwindSafe(|| filch_fuzz::run(target, data)));
    if let Err(payload) = failed {
        eprintln!("{target} fails with {name}");
        resume_unwind(payload);
    }
}

/// The folder with the inputs of the archive, and no others.
fn unpacked() -> PathBuf {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus.tar.gz");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("corpus");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let status = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&folder).status();
    assert!(status.unwrap().success());
    folder
}

#[test]
fn corpora() {
    let unpacked = unpacked();
    for target in filch_fuzz::TARGETS {
        let folder = unpacked.join(target);
        let mut files: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(!files.is_empty(), "no corpus in {}", folder.display());
        for file in &files {
            run(target, &file.display().to_string(), &fs::read(file).unwrap());
        }
        println!("{target}: {} inputs", files.len());
    }
}

#[test]
fn random_inputs() {
    let rounds = std::env::var("ROUNDS").map_or(300, |rounds| rounds.parse().expect("a number"));
    for target in filch_fuzz::TARGETS {
        for seed in 1..=rounds {
            run(target, &format!("seed {seed}"), &made_up(seed));
        }
        println!("{target}: {rounds} made-up inputs");
    }
}

/// Pseudo-random bytes from a seed: 8 to 2,000 of them.
fn made_up(seed: u64) -> Vec<u8> {
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 24) as u8
    };
    let length = 8 + usize::from(next()) * usize::from(next()) / 32;
    (0..length).map(|_| next()).collect()
}
