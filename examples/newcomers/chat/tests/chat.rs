//! Both versions of the program, with real clients.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    thread,
};

use tungstenite::{Message, WebSocket};

const PROGRAMS: [&str; 2] = [env!("CARGO_BIN_EXE_chat"), env!("CARGO_BIN_EXE_chat-tokio")];
const CLIENTS: usize = 8;
const WORDS: usize = 50;

/// A server on its own port, killed when it is dropped.
struct Server {
    child: Child,
    addr: String,
}

impl Server {
    fn start(program: &str) -> Self {
        let mut command = Command::new(program);
        let mut child = command.arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let addr = line.trim().strip_prefix("listening on http://").expect(program).to_owned();
        Self { child, addr }
    }

    /// A client that is in the room: it has heard itself.
    fn enter(&self, name: &str) -> WebSocket<TcpStream> {
        let stream = TcpStream::connect(&self.addr).unwrap();
        let (mut client, _) =
            tungstenite::client(format!("ws://{}/chat", self.addr), stream).unwrap();
        client.send(Message::text(name)).unwrap();
        while hear(&mut client) != name {}
        client
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn hear(client: &mut WebSocket<TcpStream>) -> String {
    client.read().unwrap().into_text().unwrap().as_str().to_owned()
}

#[test]
fn all_hear_all_in_order() {
    for program in PROGRAMS {
        let server = Server::start(program);
        let clients: Vec<_> = (0..CLIENTS).map(|i| server.enter(&format!("client {i}"))).collect();
        let gone = server.enter("one that leaves");
        drop(gone);
        let talking = clients.into_iter().enumerate().map(|(i, mut client)| {
            thread::spawn(move || {
                for word in 0..WORDS {
                    client.send(Message::text(format!("{i}:{word}"))).unwrap();
                }
                let mut next = HashMap::new();
                for _ in 0..CLIENTS * WORDS {
                    let (from, word) = loop {
                        // Not that another one has entered.
                        if let Some((from, word)) = hear(&mut client).split_once(':') {
                            break (from.to_owned(), word.parse::<usize>().unwrap());
                        }
                    };
                    let next = next.entry(from).or_insert(0);
                    assert_eq!(word, *next);
                    *next += 1;
                }
                assert_eq!(next.len(), CLIENTS);
                client.close(None).unwrap();
            })
        });
        let talking: Vec<_> = talking.collect();
        talking.into_iter().for_each(|client| client.join().unwrap());
        server.enter("a late one");
    }
}

/// It is told how much it has missed, and the others do not wait for it.
#[test]
fn one_that_does_not_listen_holds_nothing_up() {
    const MANY: usize = 20_000;
    for program in PROGRAMS {
        let server = Server::start(program);
        let mut deaf = server.enter("deaf");
        let mut other = server.enter("other");
        let text = "x".repeat(1_000);
        for _ in 0..MANY {
            other.send(Message::text(&*text)).unwrap();
            assert_eq!(hear(&mut other), text);
        }
        let missed = loop {
            let heard = hear(&mut deaf);
            if let Some(missed) = heard.strip_prefix('(') {
                break missed.strip_suffix(" missed)").unwrap().parse::<usize>().unwrap();
            }
        };
        assert!((1..MANY).contains(&missed), "{missed}");
    }
}

#[test]
fn the_page_knows_the_room() {
    for program in PROGRAMS {
        let server = Server::start(program);
        let mut stream = TcpStream::connect(&server.addr).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        assert!(page.contains("new WebSocket(`ws://${location.host}/chat`)"), "{page}");
    }
}
