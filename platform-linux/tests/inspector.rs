//! The page that shows the running program, over real sockets; and in a browser, where there is one.

use core::{net::SocketAddr, time::Duration};
use std::{
    env, fs,
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{self, Command},
    thread,
    time::Instant,
};

use filch_linux::{Runtime, TaskOptions, inspector, task::Class, time};
use filch_test_support::watchdog;
use filch_trace::read::Trace;
use serde_json::Value;

/// A runtime with so many tasks that wait, and the address of its page.
fn program(tasks: usize) -> (Runtime, SocketAddr) {
    let runtime = filch_linux::Builder::new().workers(2).recorder(4096).build().unwrap();
    let addr = runtime.block_on(async {
        for i in 0..tasks {
            let options = TaskOptions::new().name("ticks").class(Class::Urgent);
            let ticks = async move {
                loop {
                    time::sleep(Duration::from_millis(1 + i as u64 % 50)).await;
                }
            };
            filch_linux::spawn_with(options, ticks).unwrap().detach();
        }
        inspector::serve(([127, 0, 0, 1], 0)).unwrap().local_addr()
    });
    (runtime, addr)
}

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn text(&self) -> &str {
        core::str::from_utf8(&self.body).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Sends these bytes, and reads the answer to the end.
fn ask(addr: SocketAddr, request: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(addr).unwrap();
    // It may have answered before it has taken all.
    let _ = stream.write_all(request);
    answer(stream)
}

fn answer(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.strip_prefix("HTTP/1.1 ").unwrap()[..3].parse().unwrap();
    Answer { status, head, body: bytes[end..].to_vec() }
}

fn send(addr: SocketAddr, method: &str, path: &str) -> Answer {
    ask(addr, format!("{method} {path} HTTP/1.1\r\nHost: {addr}\r\n\r\n").as_bytes())
}

fn get(addr: SocketAddr, path: &str) -> Answer {
    let answer = send(addr, "GET", path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.head);
    let length = format!("\r\nContent-Length: {}\r\n", answer.body.len());
    assert!(answer.head.contains(&length), "{path}: {}", answer.head);
    assert!(!answer.head.contains("Access-Control"), "{path}: {}", answer.head);
    answer
}

#[test]
fn each_path_has_its_answer() {
    let _watchdog = watchdog();
    let (_runtime, addr) = program(20);
    thread::sleep(Duration::from_millis(100));

    let page = get(addr, "/");
    assert!(page.head.contains("Content-Type: text/html"));
    // It is one file: its only links are to the program itself.
    assert!(!page.text().contains("http:") && !page.text().contains("https:"));
    assert!(!page.text().contains("innerHTML"));

    let file = get(addr, "/filch.trace");
    let trace = Trace::read(&file.body).unwrap();
    assert!(trace.complete && trace.damaged == 0);
    assert!(get(addr, "/summary.txt").text().contains("ticks"));
    let chrome = get(addr, "/trace.json").json();
    let events = chrome["traceEvents"].as_array().unwrap();
    assert!(events.iter().any(|event| event["cat"] == "poll" && event["name"] == "ticks"));
    let perfetto = get(addr, "/filch.perfetto-trace");
    assert!(perfetto.head.contains("attachment; filename=\"filch.perfetto-trace\""));
    assert!(perfetto.body.windows(5).any(|window| window == b"ticks"));
    assert_eq!(get(addr, "/tasks.json?now").json().as_array().unwrap().len(), 23);

    let head = send(addr, "HEAD", "/summary.txt");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(send(addr, "GET", "/other").status, 404);
    assert_eq!(send(addr, "GET", "//").status, 404);
    assert_eq!(send(addr, "GET", "/../page.json").status, 404);
}

#[test]
fn a_wake_that_is_overwritten_is_known_still() {
    let _watchdog = watchdog();
    // The workers' rings are full soon; that with the spawn is not.
    let runtime =
        filch_linux::Builder::new().workers(1).recorder(16).task_metrics(64).build().unwrap();
    let addr = runtime.block_on(async { inspector::serve(([127, 0, 0, 1], 0)) });
    let addr = addr.unwrap().local_addr();
    let options = TaskOptions::new().name("rests");
    let rests = async {
        time::sleep(Duration::from_millis(1)).await;
        core::future::pending::<()>().await;
    };
    let rests = runtime.handle().spawn_with(options, rests).unwrap();
    let id = format!("{:#x}", rests.id().unwrap().get());
    let row = || {
        let tasks = get(addr, "/tasks.json").json();
        let tasks = tasks.as_array().unwrap();
        tasks.iter().find(|task| task["id"] == *id).unwrap().clone()
    };
    filch_test_support::until(|| row()["polls"] == 2);
    // Each look is some events more.
    (0..20).for_each(|_| drop(row()));
    let rests = row();
    assert_eq!(rests["polls"], 2, "{rests}");
    assert!(rests["woken_by"].as_str().unwrap().starts_with("worker "), "{rests}");
}

#[test]
fn the_tasks_are_those_of_the_program() {
    let _watchdog = watchdog();
    let (runtime, addr) = program(3);
    let line = line!() + 1;
    let options = TaskOptions::new().name("rests").class(Class::Background);
    let rests = runtime.handle().spawn_with(options, core::future::pending::<()>()).unwrap();
    let id = format!("{:#x}", rests.id().unwrap().get());
    thread::sleep(Duration::from_millis(100));

    let tasks = get(addr, "/tasks.json").json();
    let tasks = tasks.as_array().unwrap();
    let rests = tasks.iter().find(|task| task["id"] == *id).unwrap();
    assert_eq!(rests["name"], "rests");
    assert_eq!((&rests["class"], &rests["state"]), (&"background".into(), &"waits".into()));
    let place = rests["place"].as_str().unwrap();
    assert!(place.contains(&format!("tests/inspector.rs:{line}:")), "{place}");
    assert_eq!(rests["polls"], 1, "{rests}");
    assert!(rests["woken_ns_ago"].as_u64().unwrap() >= 90_000_000, "{rests}");
    assert_eq!(rests["woken_by"], "a context that is no worker");
    assert!(rests["worker"].as_u64().unwrap() < 2);

    let ticks: Vec<_> = tasks.iter().filter(|task| task["name"] == "ticks").collect();
    assert_eq!(ticks.len(), 3);
    for task in ticks {
        assert_eq!(task["class"], "urgent");
        assert!(task["polls"].as_u64().unwrap() > 5 && task["busy_ns"].as_u64().unwrap() > 0);
        assert!(task["woken_by"].as_str().unwrap().starts_with("worker "), "{task}");
    }

    let page = get(addr, "/page.json").json();
    let polls = &page["polls"];
    let count = polls["start"].as_array().unwrap().len();
    assert!(count > 10);
    for column in ["lane", "task", "start", "length", "depth", "wait", "by", "flags"] {
        assert_eq!(polls[column].as_array().unwrap().len(), count, "{column}");
    }
    let starts = polls["start"].as_array().unwrap().iter().map(|start| start.as_u64().unwrap());
    assert!(starts.is_sorted());
    let lanes = page["lanes"].as_array().unwrap();
    // Two workers; spare ones have not run.
    assert!(lanes[0]["written"].as_u64() > Some(0) && lanes[0]["worker"] == 0);
    assert_eq!(lanes.last().unwrap()["worker"], Value::Null);
    assert!(page["names"].as_array().unwrap().iter().any(|name| name[0] == "rests"));
}

#[test]
fn bad_requests_are_refused() {
    let _watchdog = watchdog();
    let (_runtime, addr) = program(1);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get"] {
        let answer = send(addr, method, "/");
        assert_eq!(answer.status, 405, "{method}");
        assert!(answer.head.contains("Allow: GET, HEAD"));
    }
    for host in
        ["example.org", "localhost.example.org", "192.0.2.1", &format!("a.b:{}", addr.port())]
    {
        let request = format!("GET /tasks.json HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(ask(addr, request.as_bytes()).status, 403, "{host}");
    }
    let cross =
        format!("GET /trace.json HTTP/1.1\r\nHost: {addr}\r\nSec-Fetch-Site: cross-site\r\n\r\n");
    assert_eq!(ask(addr, cross.as_bytes()).status, 403);
    let long = format!("GET / HTTP/1.1\r\nHost: {addr}\r\nA: {}\r\n\r\n", "x".repeat(60_000));
    assert_eq!(ask(addr, long.as_bytes()).status, 431);
    let mut rng = filch_test_support::rng();
    for head in [
        b"\r\n\r\n\0".to_vec(),
        b"GET /\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n".to_vec(),
        b"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00".to_vec(),
        (0..9000).map(|_| rng.u8(128..)).collect(),
    ] {
        assert_eq!(ask(addr, &head).status, 400, "{head:.40?}");
    }
    // In pieces, and with a body that is not read.
    let mut stream = TcpStream::connect(addr).unwrap();
    for piece in
        ["HEAD /ta", "sks.json HTTP/1.1\r\nHost: loc", "alhost\r\nContent-Length: 3\r\n\r", "\nabc"]
    {
        stream.write_all(piece.as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(answer(stream).status, 200);
    // A client that goes away harms nothing.
    drop(TcpStream::connect(addr).unwrap());
    drop(TcpStream::connect(addr).map(|mut stream| stream.write_all(b"GET /trace.json HT")));
    get(addr, "/");
}

#[test]
fn clients_that_send_nothing_make_room() {
    let _watchdog = watchdog();
    let (_runtime, addr) = program(1);
    let begun = Instant::now();
    let slow: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(addr).unwrap();
            stream.write_all(b"GET / HT").unwrap();
            stream
        })
        .collect();
    // It waits until one of them has had its time.
    get(addr, "/tasks.json");
    assert!(begun.elapsed() >= Duration::from_secs(4));
    for stream in slow {
        assert_eq!(answer(stream).status, 408);
    }
}

#[test]
fn many_clients_are_served() {
    let _watchdog = watchdog();
    let (_runtime, addr) = program(50);
    thread::scope(|scope| {
        for i in 0..40 {
            let path = ["/", "/tasks.json", "/page.json", "/summary.txt"][i % 4];
            scope.spawn(move || get(addr, path));
        }
    });
}

#[test]
fn an_abort_closes_it() {
    let _watchdog = watchdog();
    let runtime = filch_linux::Builder::new().workers(1).recorder(256).build().unwrap();
    let page = runtime.block_on(async { inspector::serve(([127, 0, 0, 1], 0)) }).unwrap();
    let addr = page.local_addr();
    let taken = runtime.block_on(async { inspector::serve(addr) }).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    get(addr, "/");
    page.abort();
    assert!(page.into_task().join().is_err());
    assert_eq!(TcpStream::connect(addr).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn without_a_recorder_there_is_no_page() {
    let _watchdog = watchdog();
    let runtime = filch_linux::Builder::new().workers(1).build().unwrap();
    let error = runtime.block_on(async { inspector::serve(([127, 0, 0, 1], 0)) }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let error = inspector::serve(([127, 0, 0, 1], 0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotConnected);
}

/// A browser, if there is one.
fn browser() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let files = env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name)));
    files.into_iter().find(|file| file.exists())
}

/// The page's elements after its scripts have run.
fn dump(browser: &Path, url: &str) -> String {
    let profile =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("browser-{}", process::id()));
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--window-size=1280,900", "--virtual-time-budget=4000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(url)
        .output()
        .unwrap();
    let _ = fs::remove_dir_all(profile);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The value of an attribute of the body.
fn attribute(page: &str, name: &str) -> Option<f64> {
    let body = page.split_once("<body")?.1.split_once('>')?.0;
    body.split_once(&format!("{name}=\""))?.1.split_once('"')?.0.parse().ok()
}

#[test]
fn a_browser_shows_the_page() {
    let _watchdog = watchdog();
    let Some(browser) = browser() else {
        eprintln!("there is no browser: the page is not tested");
        return;
    };
    let (runtime, addr) = program(200);
    let options = TaskOptions::new().name("<img src=x onerror=document.title='run'>");
    let hostile = runtime.handle().spawn_with(options, core::future::pending::<()>()).unwrap();
    let page = dump(&browser, &format!("http://{addr}/"));
    hostile.abort();
    assert!(page.contains("ticks"), "{page}");
    // Only the rows in view are there.
    let rows = attribute(&page, "data-rows").unwrap();
    assert!((10.0..60.0).contains(&rows), "{rows}");
    assert_eq!(page.matches(" data-id=").count(), rows as usize);
    assert!(attribute(&page, "data-tasks").unwrap() >= 201.0);
    let (draw, take) = (attribute(&page, "data-draw-ms"), attribute(&page, "data-take-ms"));
    eprintln!(
        "the last draw took {} ms of the page's clock, all {} ms",
        draw.unwrap(),
        take.unwrap()
    );
    // A name is text, whatever is in it.
    assert!(page.contains("<title>filch</title>") && !page.contains("<img"));
}
