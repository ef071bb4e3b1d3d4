//! Runs one of the hot paths so many times: what `bench/instructions` counts.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--list"] => {
            filch_micro::PATHS.iter().for_each(|(name, _)| println!("{name}"));
            return ExitCode::SUCCESS;
        }
        [name, times] => {
            let path = filch_micro::PATHS.iter().find(|path| path.0 == name);
            if let (Some((_, run)), Ok(times)) = (path, times.parse()) {
                run(times);
                return ExitCode::SUCCESS;
            }
        }
        _ => {}
    }
    eprintln!("usage: filch-micro PATH TIMES | --list");
    ExitCode::from(2)
}
