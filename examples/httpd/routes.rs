//! The resources.

use core::time::Duration;
use std::sync::LazyLock;

use axum::{
    Router,
    body::Body,
    extract::Path,
    http::{StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::{get, post},
};
use filch_linux::{Handle, parallel, prometheus, time};

/// The longest sleep that can be requested, in milliseconds.
const LONGEST: u64 = 60_000;

/// The numbers that `/sum` adds up: 32 MiB, made by the first request.
static NUMBERS: LazyLock<Vec<u64>> = LazyLock::new(|| (0..4 << 20).collect());

pub(crate) fn router() -> Router {
    Router::new()
        .route("/", get(async || "hello, world\n"))
        .route("/echo", post(async |body: Body| body))
        .route("/sleep/{ms}", get(sleep))
        .route("/sum", get(sum))
        .route("/metrics", get(metrics))
}

async fn sleep(Path(ms): Path<u64>) -> Result<String, (StatusCode, String)> {
    if ms > LONGEST {
        let refusal = format!("not longer than {LONGEST} ms\n");
        return Err((StatusCode::BAD_REQUEST, refusal));
    }
    time::sleep(Duration::from_millis(ms)).await;
    Ok(format!("slept {ms} ms\n"))
}

/// On all workers at once, in turns with the other requests.
async fn sum() -> String {
    let numbers = NUMBERS.as_slice();
    let sum = parallel::map_reduce_async(0..numbers.len(), |i| numbers[i], u64::wrapping_add);
    format!("{}\n", sum.await.unwrap_or(0))
}

async fn metrics() -> impl IntoResponse {
    match Handle::current() {
        Ok(runtime) => {
            ([(CONTENT_TYPE, prometheus::CONTENT_TYPE)], runtime.prometheus_text()).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
