//! Databases. check.sh starts the servers, and says by these variables where they are.

use std::env;

use filch_linux::{spawn, spawn_blocking};

use super::row;
use crate::{Done, Row, equal};

pub(super) fn rows() -> Vec<Row> {
    vec![
        row!("redis", "client of a real server", redis, ""),
        row!("rusqlite", "in the blocking pool", rusqlite, ""),
        row!("sqlx", "SQLite", sqlx_sqlite, "rusqlite in `spawn_blocking`"),
        row!("sqlx", "PostgreSQL, a real server", sqlx_postgres, ""),
        row!("tokio-postgres", "PostgreSQL, a real server", tokio_postgres, ""),
    ]
}

/// The folder with the servers' sockets.
fn sockets() -> Result<String, env::VarError> {
    env::var("FILCH_SOCKETS")
}

async fn redis() -> Done {
    let client = redis::Client::open(format!("redis+unix://{}/redis", sockets()?))?;
    let value = spawn(async move {
        let mut connection = client.get_multiplexed_async_connection().await?;
        let set = redis::cmd("SET").arg("key").arg(7).to_owned();
        set.query_async::<()>(&mut connection).await?;
        redis::cmd("GET").arg("key").query_async::<i32>(&mut connection).await
    });
    equal(value.await??, 7)
}

async fn rusqlite() -> Done {
    let sum = spawn_blocking(|| {
        let db = rusqlite::Connection::open_in_memory()?;
        db.execute_batch("create table t (n integer); insert into t values (3), (4)")?;
        db.query_row("select sum(n) from t", (), |row| row.get(0))
    });
    equal::<i64>(sum.await??, 7)
}

async fn sqlx_sqlite() -> Done {
    use sqlx::{Executor, sqlite::SqlitePoolOptions};
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    let sum = spawn(async move {
        pool.execute("create table t (n integer); insert into t values (3), (4)").await?;
        let sum: i64 =
            sqlx::query_scalar("select sum(n) from t where n > ?").bind(1).fetch_one(&pool).await?;
        pool.close().await;
        Ok::<_, sqlx::Error>(sum)
    });
    equal(sum.await??, 7)
}

async fn sqlx_postgres() -> Done {
    use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
    let options = PgConnectOptions::new_without_pgpass()
        .socket(sockets()?)
        .username("filch")
        .database("postgres");
    let pool = PgPoolOptions::new().max_connections(4).connect_with(options).await?;
    // More tasks than connections.
    let tasks: Vec<_> = (0..20_i64)
        .map(|i| {
            let pool = pool.clone();
            spawn(async move {
                let query = sqlx::query_scalar::<_, i64>("select 2 * $1::int8");
                query.bind(i).fetch_one(&pool).await
            })
        })
        .collect();
    let mut sum = 0;
    for task in tasks {
        sum += task.await??;
    }
    equal(sum, 380)?;
    let mut transaction = pool.begin().await?;
    sqlx::query("create temporary table t (n int8) on commit drop")
        .execute(&mut *transaction)
        .await?;
    let inserted = sqlx::query("insert into t values (1), (2)").execute(&mut *transaction).await?;
    transaction.rollback().await?;
    pool.close().await;
    equal(inserted.rows_affected(), 2)
}

async fn tokio_postgres() -> Done {
    let config = format!("host={} user=filch dbname=postgres", sockets()?);
    let (client, connection) = tokio_postgres::connect(&config, tokio_postgres::NoTls).await?;
    let connection = spawn(connection);
    let row = client.query_one("select 2 * $1::int8", &[&21_i64]).await?;
    equal(row.try_get::<_, i64>(0)?, 42)?;
    drop(client);
    Ok(connection.await??)
}
