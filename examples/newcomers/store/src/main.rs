//! Keys and values by gRPC, kept in the PostgreSQL of `DATABASE_URL`.

use sqlx::postgres::{PgPool, PgPoolOptions};
use store::{Entry, Key, Nothing, store_server as server};
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[filch_linux::main]
async fn main() -> Result<(), Error> {
    let addr = std::env::args().nth(1).unwrap_or("127.0.0.1:50051".into()).parse()?;
    let database = std::env::var("DATABASE_URL").map_err(|_| "DATABASE_URL is not set")?;
    let pool = PgPoolOptions::new().max_connections(8).connect(&database).await?;
    let table = "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value BYTEA NOT NULL)";
    sqlx::query(table).execute(&pool).await?;
    let incoming = TcpIncoming::bind(addr)?.with_nodelay(Some(true));
    println!("listening on http://{}", incoming.local_addr()?);
    let service = server::StoreServer::new(Store(pool));
    Ok(Server::builder().add_service(service).serve_with_incoming(incoming).await?)
}

struct Store(PgPool);

#[tonic::async_trait]
impl server::Store for Store {
    async fn put(&self, request: Request<Entry>) -> Result<Response<Nothing>, Status> {
        let Entry { key, value } = request.into_inner();
        let put = "INSERT INTO entries VALUES ($1, $2) \
                   ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value";
        sqlx::query(put).bind(key).bind(value).execute(&self.0).await.map_err(failed)?;
        Ok(Response::new(Nothing {}))
    }

    async fn get(&self, request: Request<Key>) -> Result<Response<Entry>, Status> {
        let key = request.into_inner().key;
        let get = sqlx::query_scalar("SELECT value FROM entries WHERE key = $1").bind(&key);
        match get.fetch_optional(&self.0).await.map_err(failed)? {
            Some(value) => Ok(Response::new(Entry { key, value })),
            None => Err(Status::not_found(key)),
        }
    }
}

fn failed(error: sqlx::Error) -> Status {
    Status::unavailable(error.to_string())
}
