//! Both versions of the program, with the PostgreSQL of `DATABASE_URL`: `./with-postgres cargo test`.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::Mutex,
    time::{SystemTime, UNIX_EPOCH},
};

use sqlx::postgres::PgPool;
use store::{Entry, Key, store_client::StoreClient};
use tokio::task::JoinSet;
use tonic::{Code, transport::Channel};

const PROGRAMS: [&str; 2] = [env!("CARGO_BIN_EXE_store"), env!("CARGO_BIN_EXE_store-tokio")];
const CLIENTS: usize = 32;
const KEYS: usize = 50;

/// A server on its own port, killed when it is dropped.
struct Server {
    child: Child,
    url: String,
}

/// PostgreSQL reports an error if two programs create a table at the same time.
static ONE: Mutex<()> = Mutex::new(());

impl Server {
    fn start(program: &str) -> Self {
        let _one = ONE.lock().unwrap();
        let mut command = Command::new(program);
        let mut child = command.arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").expect(program).to_owned();
        Self { child, url }
    }

    async fn client(&self) -> StoreClient<Channel> {
        StoreClient::connect(self.url.clone()).await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Keys that no other run has.
fn prefix() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    format!("{} {}", std::process::id(), now.as_nanos())
}

async fn put(client: &mut StoreClient<Channel>, key: &str, value: &[u8]) {
    let entry = Entry { key: key.to_owned(), value: value.to_vec() };
    client.put(entry).await.unwrap();
}

async fn get(client: &mut StoreClient<Channel>, key: &str) -> Result<Vec<u8>, Code> {
    let entry = client.get(Key { key: key.to_owned() }).await;
    let entry = entry.map_err(|status| status.code())?.into_inner();
    assert_eq!(entry.key, key);
    Ok(entry.value)
}

#[tokio::test]
async fn what_is_put_stays() {
    for program in PROGRAMS {
        let key = prefix();
        let server = Server::start(program);
        let mut client = server.client().await;
        assert_eq!(get(&mut client, &key).await, Err(Code::NotFound));
        for value in [&b"one"[..], b"", b"\0\xff"] {
            put(&mut client, &key, value).await;
            assert_eq!(get(&mut client, &key).await.as_deref(), Ok(value));
        }
        drop(server);
        // Of another process.
        let server = Server::start(program);
        assert_eq!(get(&mut server.client().await, &key).await.as_deref(), Ok(&b"\0\xff"[..]));
    }
}

#[tokio::test]
async fn many_at_the_same_time() {
    let database = std::env::var("DATABASE_URL").expect("./with-postgres cargo test");
    let database = PgPool::connect(&database).await.unwrap();
    for program in PROGRAMS {
        let (prefix, server) = (prefix(), Server::start(program));
        let mut clients = JoinSet::new();
        for i in 0..CLIENTS {
            let (prefix, mut client) = (prefix.clone(), server.client().await);
            clients.spawn(async move {
                for k in 0..KEYS {
                    let (key, value) = (format!("{prefix} {i} {k}"), [i as u8, k as u8].repeat(k));
                    put(&mut client, &key, &value).await;
                    // A key that all write.
                    put(&mut client, &prefix, &value).await;
                    assert_eq!(get(&mut client, &key).await, Ok(value));
                }
            });
        }
        while let Some(ended) = clients.join_next().await {
            ended.unwrap();
        }
        let rows = sqlx::query_scalar("SELECT count(*) FROM entries WHERE starts_with(key, $1)");
        let rows: i64 = rows.bind(&prefix).fetch_one(&database).await.unwrap();
        assert_eq!(rows, (CLIENTS * KEYS + 1) as i64);
        assert!(get(&mut server.client().await, &prefix).await.is_ok(), "it still serves");
    }
}
