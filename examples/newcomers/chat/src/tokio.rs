//! A chat over WebSockets: what one says, all hear.

use axum::{
    Router,
    extract::{
        State, WebSocketUpgrade,
        ws::{Message, Utf8Bytes, WebSocket},
    },
    response::{Html, Response},
    routing::get,
    serve::ListenerExt,
};
use tokio::{
    net::TcpListener,
    sync::broadcast::{self, Sender, error::RecvError},
};

type Room = Sender<Utf8Bytes>;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let addr = std::env::args().nth(1).unwrap_or("127.0.0.1:8080".into());
    let listener = TcpListener::bind(addr).await?;
    println!("listening on http://{}", listener.local_addr()?);
    // Small messages do not wait for each other.
    let listener = listener.tap_io(|socket| drop(socket.set_nodelay(true)));
    let room: Room = broadcast::channel(1_024).0;
    let page = get(async || Html(include_str!("page.html")));
    let app = Router::new().route("/", page).route("/chat", get(enter)).with_state(room);
    axum::serve(listener, app).await
}

async fn enter(request: WebSocketUpgrade, State(room): State<Room>) -> Response {
    // In a task of axum's own, on any worker.
    request.on_upgrade(async |socket| drop(talk(socket, room).await))
}

/// Until the client leaves.
async fn talk(mut socket: WebSocket, room: Room) -> Result<(), axum::Error> {
    let mut others = room.subscribe();
    loop {
        tokio::select! {
            said = socket.recv() => match said.transpose()? {
                Some(Message::Text(text)) => drop(room.send(text)),
                Some(Message::Close(_)) | None => return Ok(()),
                Some(_) => {}
            },
            heard = others.recv() => match heard {
                Ok(text) => socket.send(Message::Text(text)).await?,
                // A client that reads slower than the others talk.
                Err(RecvError::Lagged(n)) => socket.send(format!("({n} missed)").into()).await?,
                Err(RecvError::Closed) => return Ok(()),
            },
        }
    }
}
