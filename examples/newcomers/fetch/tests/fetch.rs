//! Both versions of the program, against their own server and one that counts.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Output},
    sync::{Arc, Condvar, Mutex},
    thread,
};

const PROGRAMS: [&str; 2] = [env!("CARGO_BIN_EXE_fetch"), env!("CARGO_BIN_EXE_fetch-tokio")];
const REQUESTS: usize = 1_000;
const AT_A_TIME: usize = 64;

fn run(program: &str, args: &[&str]) -> (Output, String) {
    let output = Command::new(program).args(args).output().unwrap();
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    (output, said)
}

#[test]
fn its_own_server_answers_all() {
    for program in PROGRAMS {
        let (output, said) = run(program, &[]);
        assert!(output.status.success(), "{output:?}");
        assert!(said.starts_with("1000 answered, 0 failed, 5000 bytes, "), "{said}");
    }
}

#[derive(Default)]
struct Count {
    requests: usize,
    open: usize,
    most: usize,
}

/// Answers the first requests when as many are there as there may be at a time.
fn serve(stream: TcpStream, shared: &(Mutex<Count>, Condvar)) {
    let (count, changed) = shared;
    let mut lines = BufReader::new(&stream).lines();
    while let Some(Ok(line)) = lines.next() {
        if !line.is_empty() {
            continue;
        }
        let mut count = count.lock().unwrap();
        count.requests += 1;
        count.open += 1;
        count.most = count.most.max(count.open);
        changed.notify_all();
        let mut count = changed.wait_while(count, |count| count.requests < AT_A_TIME).unwrap();
        count.open -= 1;
        drop(count);
        (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").unwrap();
    }
}

#[test]
fn at_most_so_many_at_a_time() {
    for program in PROGRAMS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let shared = Arc::new((Mutex::new(Count::default()), Condvar::new()));
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&serving);
                thread::spawn(move || serve(stream.unwrap(), &shared));
            }
        });
        let (output, said) = run(program, &[&url]);
        assert!(output.status.success(), "{output:?}");
        assert!(said.starts_with("1000 answered, 0 failed, 2000 bytes, "), "{said}");
        let count = shared.0.lock().unwrap();
        assert_eq!((count.requests, count.most), (REQUESTS, AT_A_TIME));
    }
}

#[test]
fn failures_are_told() {
    // No longer listened to, at an address that no other test listens at.
    let addr = TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap();
    for program in PROGRAMS {
        let (output, said) = run(program, &[&format!("http://{addr}/")]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(said.starts_with("0 answered, 1000 failed, 0 bytes, "), "{said}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.starts_with("Error: ") && error.contains("ConnectionRefused"), "{error}");
    }
}
