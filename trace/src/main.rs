//! `filch-trace`: says what is in a trace of the executor filch, and exports it.

use core::fmt;
use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufWriter, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use filch_trace::read::{Trace, serial};
use lexopt::{Arg, Parser, ValueExt};

const HELP: &str = "\
Says what is in a trace of the executor filch, and exports it.

Usage: filch-trace summary|perfetto|chrome FILE [-o OUT] [--serial]

  summary    says what happened: long polls, polls that have not ended, waits, workers, tasks
  perfetto   writes a trace for https://ui.perfetto.dev
  chrome     writes JSON for chrome://tracing, Perfetto and Speedscope

  FILE           the trace; - is the standard input
  -o, --out OUT  where to write; - is the standard output. Otherwise summary writes there, as all do
                 with the standard input, perfetto to FILE.perfetto-trace and chrome to FILE.json,
                 in place of the extension of FILE
  --serial       FILE is the log of a serial line: the trace is what follows `filch-trace: ` in
                 its lines, in hexadecimal
  -h, --help     this text
  -V, --version  the version of this program

The program ends with 1 if it cannot read FILE or write OUT, and with 2 if it is used in another way.
";

/// What the program was asked for.
enum Request {
    Help,
    Version,
    Run(Job),
}

struct Job {
    output: Output,
    file: PathBuf,
    out: Option<PathBuf>,
    serial: bool,
}

#[derive(Clone, Copy)]
enum Output {
    Summary,
    Perfetto,
    Chrome,
}

fn main() -> ExitCode {
    let done = match request(Parser::from_env()) {
        Ok(Request::Help) => print(HELP),
        Ok(Request::Version) => print(concat!("filch-trace ", env!("CARGO_PKG_VERSION"), "\n")),
        Ok(Request::Run(job)) => job.run(),
        Err(error) => {
            complain(format_args!("{error}\nTry: filch-trace --help"));
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("{error}"));
            ExitCode::FAILURE
        }
    }
}

/// Says it on the standard error, if there is one.
fn complain(what: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "filch-trace: {what}");
}

fn print(text: &str) -> Result<(), String> {
    write_to(Path::new("-"), |out| out.write_all(text.as_bytes()))
}

fn request(mut parser: Parser) -> Result<Request, lexopt::Error> {
    let (mut values, mut out, mut serial) = (Vec::new(), None, false);
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Short('h') | Arg::Long("help") => return Ok(Request::Help),
            Arg::Short('V') | Arg::Long("version") => return Ok(Request::Version),
            Arg::Short('o') | Arg::Long("out") => out = Some(PathBuf::from(parser.value()?)),
            Arg::Long("serial") => serial = true,
            Arg::Value(value) if values.len() < 2 => values.push(value),
            other => return Err(other.unexpected()),
        }
    }
    let mut values = values.into_iter();
    let output = Output::of(values.next())?;
    let file = PathBuf::from(values.next().ok_or("which FILE?")?);
    Ok(Request::Run(Job { output, file, out, serial }))
}

impl Output {
    fn of(name: Option<OsString>) -> Result<Self, lexopt::Error> {
        let name = name.ok_or("what to do: summary, perfetto or chrome?")?.string()?;
        match name.as_str() {
            "summary" => Ok(Self::Summary),
            "perfetto" => Ok(Self::Perfetto),
            "chrome" => Ok(Self::Chrome),
            _ => Err(format!("`{name}` is none of summary, perfetto and chrome").into()),
        }
    }
}

impl Job {
    fn run(&self) -> Result<(), String> {
        let mut bytes = read(&self.file).map_err(|error| self.cannot_read(&error))?;
        if self.serial {
            bytes = serial(&bytes);
        }
        let trace = Trace::read(&bytes).map_err(|error| self.cannot_read(&error))?;
        let out = self.out();
        write_to(&out, |out| match self.output {
            Output::Summary => write!(out, "{}", trace.summary()),
            Output::Perfetto => out.write_all(&trace.perfetto()),
            Output::Chrome => trace.chrome(&mut &mut *out),
        })?;
        if out != Path::new("-") {
            complain(format_args!("wrote {}", out.display()));
        }
        Ok(())
    }

    fn cannot_read(&self, error: &dyn fmt::Display) -> String {
        format!("{}: {error}", self.file.display())
    }

    fn out(&self) -> PathBuf {
        let extension = match (&self.out, self.output) {
            (Some(out), _) => return out.clone(),
            (None, Output::Summary) => return "-".into(),
            (None, Output::Perfetto) => "perfetto-trace",
            (None, Output::Chrome) => "json",
        };
        if self.file == Path::new("-") { "-".into() } else { self.file.with_extension(extension) }
    }
}

/// What is in a file, or comes from the standard input.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    if path != Path::new("-") {
        return fs::read(path);
    }
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes to a file, or to the standard output. A reader of that may leave early.
fn write_to(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), String> {
    if path != Path::new("-") {
        let to_file = || {
            let mut out = BufWriter::new(File::create(path)?);
            write(&mut out)?;
            out.flush()
        };
        return to_file().map_err(|error| format!("{}: {error}", path.display()));
    }
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("the standard output: {error}"))
        }
        _ => Ok(()),
    }
}
