//! The page, from the outcomes.

use std::{
    env,
    fmt::Write,
    process::{Command, ExitCode, Output},
};

use crate::{ASKS_FOR_TOKIO, Row};

const HEAD: &str = include_str!("head.md");
const LOCK: &str = include_str!("../Cargo.lock");

impl Row {
    /// Names the row among the others.
    pub(crate) fn id(&self) -> String {
        format!("{}: {}", self.name, self.what)
    }

    /// Runs the row in a process of its own.
    fn play(&self, kind: &str) -> Output {
        let program = env::current_exe().expect("its own path");
        let id = self.id();
        Command::new(program)
            .args(["run", &id, kind])
            .env("RUST_BACKTRACE", "0")
            .output()
            .expect("a process")
    }

    /// What its cell says; otherwise what is wrong.
    fn outcome(&self) -> Result<&'static str, String> {
        let (plain, tokio) = (self.play("plain"), self.play("tokio"));
        let text = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
        let status = |output: &Output| output.status.code().unwrap_or(-1);
        let asks = i32::from(ASKS_FOR_TOKIO);
        match (status(&plain), status(&tokio), self.refuses) {
            (0, 0, None) => Ok("works"),
            (plain, 0, None) if plain == asks => Ok("with feature `tokio`"),
            (_, failed, Some(words)) if failed != 0 && text(&tokio).contains(words) => {
                Ok("does not")
            }
            (one, other, _) => Err(format!(
                "{} ends with {one} and {other}:\n{}\n{}",
                self.id(),
                text(&plain),
                text(&tokio)
            )),
        }
    }

    /// The version that the lock file has.
    fn version(&self) -> &'static str {
        let package = format!("\nname = \"{}\"\nversion = \"", self.name);
        let mut after = LOCK.split(&package).skip(1).map(|after| after.split('"').next());
        match (after.next().flatten(), after.next()) {
            (Some(version), None) => version,
            other => panic!("not one version of {}: {other:?}", self.name),
        }
    }
}

/// Prints the page. Fails, and says why, if a row is not what it should be.
pub(crate) fn print(rows: &[Row]) -> ExitCode {
    let mut page = HEAD.to_owned();
    let mut wrong = false;
    for row in rows {
        match row.outcome() {
            Ok(outcome) => {
                let Row { name, what, advice, .. } = row;
                let version = row.version();
                writeln!(page, "| {name} {version} | {what} | {outcome} | {advice} |")
                    .expect("a string takes all");
            }
            Err(error) => {
                wrong = true;
                eprintln!("{error}");
            }
        }
    }
    print!("{page}");
    if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
