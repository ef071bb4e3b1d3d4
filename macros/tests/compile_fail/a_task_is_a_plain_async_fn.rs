//! `#[filch::task]` says what it cannot make a task of, each at its own token.

#[filch::task]
fn not_async() {}

#[filch::task]
async fn generic<T: Send + 'static>(_: T) {}

#[filch::task]
async fn generic_by_lifetime<'a>(_: &'a u8) {}

#[filch::task]
async fn anonymous(_: Vec<impl Send>) {}

#[filch::task]
async fn borrowed(_: u8, _: &mut u8) {}

#[filch::task]
async fn borrowed_within(_: Option<(u8, std::slice::Iter<'_, u8>)>) {}

#[filch::task]
async fn borrowed_output() -> Option<&u8> {
    None
}

#[filch::task]
async unsafe fn not_safe() {}

#[filch::task]
async extern "C" fn foreign() {}

#[filch::task]
const unsafe extern "C" fn everything(_: u8, _: ...) {}

#[filch::task]
async fn conditional(#[cfg(all())] _: u8) {}

#[filch::task]
#[filch::task(pool_size = 2)]
async fn twice() {}

#[filch::task]
struct NoFunction;

trait Trait {
    #[filch::task]
    async fn without_body();
}

struct Board;

impl Board {
    #[filch::task]
    async fn receiver(&self) {}

    #[filch::task]
    async fn typed_receiver(self: Box<Self>) {}
}

fn main() {}
