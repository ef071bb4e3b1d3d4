//! Clients and servers of HTTP, of names and of mail.

use core::time::Duration;

use filch_linux::{
    hyper::{Executor, Timer},
    net::{TcpListener, TcpStream},
    spawn, spawn_blocking,
};
use http_body_util::{BodyExt, Empty};
use hyper::{Request, body::Bytes};
use hyper_util::client::legacy::Client;

use super::row;
use crate::{Done, Row, equal, servers};

pub(super) fn rows() -> Vec<Row> {
    vec![
        row!("hyper", "HTTP/1, client and server", hyper, "feature `hyper`"),
        row!(
            "hyper-util",
            "`server::conn::auto`",
            hyper_util_server,
            "`filch_linux::hyper::Executor`"
        ),
        row!(
            "hyper-util",
            "`client::legacy`, with its own connector",
            hyper_util_client,
            "hyper over `filch_linux::net::TcpStream`"
        ),
        row!("reqwest", "client", reqwest, "hyper; or ureq in `spawn_blocking`"),
        row!("ureq", "client, in the blocking pool", ureq, ""),
        row!("hickory-resolver", "look-up", hickory, "`filch_linux::net::lookup_host`"),
        row!(
            "lettre",
            "mail by `Tokio1Executor`",
            lettre,
            "its `SmtpTransport` in `spawn_blocking`"
        ),
        row!("lettre", "mail by `SmtpTransport`, in the blocking pool", lettre_blocking, ""),
    ]
}

async fn hyper() -> Done {
    let stream = TcpStream::connect_addr(servers::http().await?).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
    spawn(connection).detach();
    let request = Request::get("/path").header("host", "localhost").body(Empty::<Bytes>::new())?;
    let response = spawn(async move { sender.send_request(request).await }).await??;
    equal(&response.into_body().collect().await?.to_bytes()[..], b"/path")
}

async fn hyper_util_server() -> Done {
    use hyper_util::server::conn::auto::Builder;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    spawn(async move {
        let (stream, _) = listener.accept().await?;
        let path = async |request: Request<hyper::body::Incoming>| {
            let path = Bytes::from(request.uri().path().to_owned());
            Ok::<_, core::convert::Infallible>(hyper::Response::new(http_body_util::Full::new(
                path,
            )))
        };
        let mut http = Builder::new(Executor::new());
        http.http1().timer(Timer::new());
        let served = http.serve_connection(stream, hyper::service::service_fn(path)).await;
        served.map_err(std::io::Error::other)
    })
    .detach();
    let stream = TcpStream::connect_addr(addr).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
    spawn(connection).detach();
    let request = Request::get("/auto").header("host", "localhost").body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    equal(&response.into_body().collect().await?.to_bytes()[..], b"/auto")
}

async fn hyper_util_client() -> Done {
    let uri = format!("http://{}/pooled", servers::http().await?).parse()?;
    let client: Client<_, Empty<Bytes>> = Client::builder(Executor::new()).build_http();
    let response = spawn(async move { client.get(uri).await }).await??;
    equal(&response.into_body().collect().await?.to_bytes()[..], b"/pooled")
}

async fn reqwest() -> Done {
    let url = format!("http://{}/requested", servers::http().await?);
    let client = reqwest::Client::builder().timeout(Duration::from_secs(10)).build()?;
    let text = spawn(async move { client.get(url).send().await?.text().await });
    equal(text.await??, "/requested".to_owned())
}

async fn ureq() -> Done {
    let url = format!("http://{}/blocking", servers::http().await?);
    let text = spawn_blocking(move || ureq::get(url).call()?.into_body().read_to_string());
    equal(text.await??, "/blocking".to_owned())
}

async fn hickory() -> Done {
    use hickory_resolver::{
        Resolver,
        config::{ConnectionConfig, NameServerConfig, ResolverConfig},
        net::runtime::TokioRuntimeProvider,
    };
    let addr = servers::dns().await?;
    let mut udp = ConnectionConfig::udp();
    udp.port = addr.port();
    let server = NameServerConfig::new(addr.ip(), true, vec![udp]);
    let config = ResolverConfig::from_parts(None, vec![], vec![server]);
    let resolver =
        Resolver::builder_with_config(config, TokioRuntimeProvider::default()).build()?;
    let found = spawn(async move { resolver.ipv4_lookup("host.example.").await }).await??;
    let found: Vec<_> = found.answers().iter().map(|record| record.data.to_string()).collect();
    equal(found, vec!["192.0.2.7".to_owned()])
}

/// A mail, and where a server waits for it; with what the server has got.
type Mail = (lettre::Message, u16, filch_linux::JoinHandle<std::io::Result<String>>);

async fn mail() -> Result<Mail, Box<dyn core::error::Error + Send + Sync>> {
    let (addr, got) = servers::smtp().await?;
    let message = lettre::Message::builder()
        .from("one@example.org".parse()?)
        .to("other@example.org".parse()?)
        .subject("greeting")
        .body("hello\n".to_owned())?;
    Ok((message, addr.port(), got))
}

async fn lettre() -> Done {
    use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
    let (message, port, got) = mail().await?;
    let transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous("127.0.0.1");
    let transport = transport.port(port).build();
    spawn(async move { transport.send(message).await }).await??;
    equal(got.await??.contains("\nhello"), true)
}

async fn lettre_blocking() -> Done {
    use lettre::{SmtpTransport, Transport};
    let (message, port, got) = mail().await?;
    let transport = SmtpTransport::builder_dangerous("127.0.0.1").port(port).build();
    spawn_blocking(move || transport.send(&message)).await??;
    equal(got.await??.contains("\nhello"), true)
}
