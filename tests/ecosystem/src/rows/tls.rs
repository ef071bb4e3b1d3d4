//! TLS, QUIC and WebSockets.

use std::sync::Arc;

use filch_linux::{
    net::{TcpListener, TcpStream},
    spawn,
};
use futures::{AsyncReadExt, AsyncWriteExt, SinkExt, StreamExt};
use futures_rustls::{
    pki_types::{PrivatePkcs8KeyDer, ServerName},
    rustls::{ClientConfig, RootCertStore, ServerConfig},
};
use tokio_util::compat::FuturesAsyncReadCompatExt;

use super::row;
use crate::{Done, Row, equal};

pub(super) fn rows() -> Vec<Row> {
    vec![
        row!("futures-rustls", "TLS over this crate's TCP", futures_rustls, ""),
        row!(
            "tokio-rustls",
            "TLS over this crate's TCP",
            tokio_rustls,
            "`compat()`; by the feature without it"
        ),
        row!("quinn", "QUIC, client and server", quinn, ""),
        row!("async-tungstenite", "WebSocket over this crate's TCP", async_tungstenite, ""),
        row!(
            "tokio-tungstenite",
            "WebSocket over this crate's TCP",
            tokio_tungstenite,
            "`compat()`; by the feature without it"
        ),
    ]
}

type Configs = (Arc<ServerConfig>, Arc<ClientConfig>);

/// A server's and a client's, which trusts it.
fn configs() -> Result<Configs, Box<dyn core::error::Error + Send + Sync>> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = made.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone())?;
    let server = ServerConfig::builder().with_no_client_auth();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok((Arc::new(server.with_single_cert(vec![certificate], key.into())?), Arc::new(client)))
}

async fn pair() -> std::io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let here = TcpStream::connect_addr(listener.local_addr()?).await?;
    Ok((here, listener.accept().await?.0))
}

async fn futures_rustls() -> Done {
    let (server, client) = configs()?;
    let (here, there) = pair().await?;
    let serves = spawn(async move {
        let mut stream = futures_rustls::TlsAcceptor::from(server).accept(there).await?;
        let mut bytes = [0; 5];
        stream.read_exact(&mut bytes).await?;
        stream.write_all(&bytes).await?;
        stream.close().await
    });
    let name = ServerName::try_from("localhost")?;
    let mut stream = futures_rustls::TlsConnector::from(client).connect(name, here).await?;
    stream.write_all(b"hello").await?;
    let mut bytes = [0; 5];
    stream.read_exact(&mut bytes).await?;
    serves.await??;
    equal(&bytes, b"hello")
}

async fn tokio_rustls() -> Done {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (server, client) = configs()?;
    let (here, there) = pair().await?;
    let serves = spawn(async move {
        let acceptor = tokio_rustls::TlsAcceptor::from(server);
        let mut stream = acceptor.accept(there.compat()).await?;
        let mut bytes = [0; 5];
        stream.read_exact(&mut bytes).await?;
        stream.write_all(&bytes).await?;
        stream.shutdown().await
    });
    let name = ServerName::try_from("localhost")?;
    let connector = tokio_rustls::TlsConnector::from(client);
    let mut stream = connector.connect(name, here.compat()).await?;
    stream.write_all(b"hello").await?;
    let mut bytes = [0; 5];
    stream.read_exact(&mut bytes).await?;
    serves.await??;
    equal(&bytes, b"hello")
}

async fn quinn() -> Done {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = made.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone())?;
    let config = quinn::ServerConfig::with_single_cert(vec![certificate], key.into())?;
    let server = quinn::Endpoint::server(config, "127.0.0.1:0".parse()?)?;
    let addr = server.local_addr()?;
    let serves = spawn(async move {
        let connection = server.accept().await.ok_or("the endpoint is closed")?.await?;
        let (mut send, mut receive) = connection.accept_bi().await?;
        let all = receive.read_to_end(1_000).await?;
        send.write_all(&all).await?;
        send.finish()?;
        connection.closed().await;
        Ok::<_, Box<dyn core::error::Error + Send + Sync>>(())
    });
    let mut client = quinn::Endpoint::client("127.0.0.1:0".parse()?)?;
    client.set_default_client_config(quinn::ClientConfig::with_root_certificates(Arc::new(roots))?);
    let connection = client.connect(addr, "localhost")?.await?;
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(b"hello").await?;
    send.finish()?;
    equal(&receive.read_to_end(1_000).await?[..], b"hello")?;
    connection.close(0_u32.into(), b"done");
    serves.await?
}

async fn async_tungstenite() -> Done {
    use async_tungstenite::tungstenite::Message;
    let (here, there) = pair().await?;
    let serves = spawn(async move {
        let mut socket = async_tungstenite::accept_async(there).await?;
        if let Some(message) = socket.next().await {
            socket.send(message?).await?;
        }
        socket.close(None).await
    });
    let (mut socket, _) = async_tungstenite::client_async("ws://localhost/", here).await?;
    socket.send(Message::text("hello")).await?;
    let answer = socket.next().await.ok_or("the end")??;
    serves.await??;
    equal(answer, Message::text("hello"))
}

async fn tokio_tungstenite() -> Done {
    use tokio_tungstenite::tungstenite::Message;
    let (here, there) = pair().await?;
    let serves = spawn(async move {
        let mut socket = tokio_tungstenite::accept_async(there.compat()).await?;
        if let Some(message) = socket.next().await {
            socket.send(message?).await?;
        }
        socket.close(None).await
    });
    let url = "ws://localhost/";
    let (mut socket, _) = tokio_tungstenite::client_async(url, here.compat()).await?;
    socket.send(Message::text("hello")).await?;
    let answer = socket.next().await.ok_or("the end")??;
    serves.await??;
    equal(answer, Message::text("hello"))
}
