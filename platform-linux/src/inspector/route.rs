//! What there is to see, by path.

use std::borrow::Cow;

use filch_std::Handle;
use filch_trace::read::Trace;

use super::{
    data, in_background,
    request::{FAILED, NOT_FOUND, Status, UNAVAILABLE},
};

/// The body of an answer.
pub(super) struct Body {
    pub(super) kind: &'static str,
    /// The name of the file that the browser saves, instead of showing it.
    pub(super) file: Option<&'static str>,
    pub(super) bytes: Cow<'static, [u8]>,
}

impl Body {
    fn new(kind: &'static str, bytes: Vec<u8>) -> Self {
        Self { kind, file: None, bytes: bytes.into() }
    }

    pub(super) fn text(text: String) -> Self {
        Self::new("text/plain; charset=utf-8", text.into())
    }

    fn json(bytes: Vec<u8>) -> Self {
        Self::new("application/json", bytes)
    }

    fn file(name: &'static str, bytes: Vec<u8>) -> Self {
        Self { file: Some(name), ..Self::new("application/octet-stream", bytes) }
    }
}

/// Makes a body of the recorder's file; on the blocking pool.
type Make = fn(&Handle, &[u8]) -> Option<Body>;

/// The answer to a request for this path.
pub(super) async fn answer(path: &str, handle: &Handle) -> Result<Body, Status> {
    let make: Make = match path {
        "/" => {
            let bytes = include_bytes!("page.html");
            let kind = "text/html; charset=utf-8";
            return Ok(Body { kind, file: None, bytes: Cow::Borrowed(bytes) });
        }
        "/page.json" => {
            |handle, file| Some(Body::json(data::page(handle, &Trace::read(file).ok()?)?))
        }
        "/tasks.json" => {
            |handle, file| Some(Body::json(data::tasks(handle, &Trace::read(file).ok()?)?))
        }
        "/trace.json" => |_, file| {
            let mut json = Vec::new();
            Trace::read(file).ok()?.chrome(&mut json).ok()?;
            Some(Body::json(json))
        },
        "/filch.trace" => |_, file| Some(Body::file("filch.trace", file.to_vec())),
        "/filch.perfetto-trace" => {
            |_, file| Some(Body::file("filch.perfetto-trace", Trace::read(file).ok()?.perfetto()))
        }
        "/summary.txt" => |_, file| Some(Body::text(Trace::read(file).ok()?.summary().to_string())),
        _ => return Err(NOT_FOUND),
    };
    let runtime = *handle;
    let work = move || match runtime.snapshot() {
        Some(snapshot) => make(&runtime, snapshot.as_bytes()).ok_or(FAILED),
        None => Err(UNAVAILABLE),
    };
    let spawn = |options, work| handle.spawn_blocking_with(options, work);
    let task = in_background("filch inspector: data", work, spawn).map_err(|_| UNAVAILABLE)?;
    task.await.map_err(|_| FAILED)?
}
