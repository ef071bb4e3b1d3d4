//! Common crates work on this executor: a channel, locks, combinators, TLS, HTTP/2 without hyper.

#[path = "tcp_common/mod.rs"]
mod common;

use core::time::Duration;
use std::{io, sync::Arc};

use filch_linux::{
    net::{TcpListener, TcpStream},
    spawn,
    task::{JoinSet, yield_now},
    time,
};
use futures::{
    AsyncReadExt, AsyncWriteExt, SinkExt, StreamExt, channel::mpsc, future::join_all, stream,
};
use futures_rustls::{
    TlsAcceptor, TlsConnector,
    rustls::{
        ClientConfig, RootCertStore, ServerConfig,
        pki_types::{PrivatePkcs8KeyDer, ServerName},
    },
};
use h2::{client, server};
use http::{Request, Response};
use tokio_util::compat::FuturesAsyncReadCompatExt;

use common::run;

type Error = Box<dyn core::error::Error + Send + Sync>;

/// Both ends of a connection over the loopback.
async fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let here = TcpStream::connect_addr(listener.local_addr()?).await?;
    Ok((here, listener.accept().await?.0))
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * at / 11) as u8).collect()
}

#[test]
fn async_channel_with_many_at_both_ends() {
    let sum = run(4, async {
        let (sender, receiver) = async_channel::bounded(3);
        let mut senders = JoinSet::new();
        for producer in 0..8_u64 {
            let sender = sender.clone();
            senders.spawn(async move {
                for i in 0..500 {
                    sender.send(500 * producer + i).await.expect("somebody receives");
                }
            });
        }
        drop(sender);
        let receivers = (0..4).map(|_| {
            let receiver = receiver.clone();
            spawn(async move { receiver.fold(0, async |sum, i| sum + i).await })
        });
        let sums = join_all(receivers.collect::<Vec<_>>()).await;
        sums.into_iter().map(|sum| sum.expect("no panic")).sum::<u64>()
    });
    assert_eq!(sum, (0..4_000).sum::<u64>());
}

#[test]
fn async_lock_excludes_and_counts() {
    const TASKS: usize = 16;
    run(4, async {
        let count = Arc::new(async_lock::Mutex::new(0_usize));
        let at_once = Arc::new(async_lock::Semaphore::new(3));
        let together = Arc::new(async_lock::Barrier::new(TASKS));
        let tasks = (0..TASKS).map(|_| {
            let (count, at_once, together) = (count.clone(), at_once.clone(), together.clone());
            spawn(async move {
                let leads = together.wait().await.is_leader();
                for _ in 0..100 {
                    let _permit = at_once.acquire().await;
                    let mut count = count.lock().await;
                    let before = *count;
                    // While the lock is held: if another task had it too, its increment would be
                    // lost.
                    yield_now().await;
                    *count = before + 1;
                }
                leads
            })
        });
        let tasks = join_all(tasks.collect::<Vec<_>>()).await;
        let leaders = tasks.into_iter().filter(|leads| *leads.as_ref().expect("no panic"));
        assert_eq!(leaders.count(), 1);
        assert_eq!(*count.lock().await, 100 * TASKS);
    });
}

#[test]
fn futures_select_streams_and_sinks() {
    run(3, async {
        let (mut sender, receiver) = mpsc::channel(1);
        let sending = spawn(async move {
            for i in 0..100 {
                sender.send(i).await?;
            }
            Ok::<_, mpsc::SendError>(())
        });
        let squares = receiver
            .map(|i: u32| spawn(async move { i * i }))
            .buffered(7)
            .map(|square| square.expect("no panic"))
            .collect::<Vec<_>>();
        assert_eq!(squares.await, (0..100).map(|i| i * i).collect::<Vec<_>>());
        sending.await.expect("no panic").expect("it was received");

        let mut never = stream::pending::<()>();
        let mut short = Box::pin(futures::FutureExt::fuse(time::sleep(Duration::from_millis(1))));
        futures::select! {
            _ = never.next() => unreachable!(),
            () = short => {}
        }
    });
}

#[test]
fn futures_copies_between_our_streams() -> Result<(), Error> {
    run(3, async {
        let (mut source, relay_in) = pair().await?;
        let (mut relay_out, sink) = pair().await?;
        let data = pattern(3_000_000);
        let relay = spawn(async move {
            let copied = futures::io::copy(&relay_in, &mut relay_out).await?;
            relay_out.close().await?;
            Ok::<_, io::Error>(copied)
        });
        let receive = spawn(async move {
            let mut received = Vec::new();
            (&sink).read_to_end(&mut received).await?;
            Ok::<_, io::Error>(received)
        });
        source.write_all(&data).await?;
        source.close().await?;
        assert_eq!(relay.await??, data.len() as u64);
        assert!(receive.await?? == data);
        Ok(())
    })
}

/// The certificate authority for `localhost`, and its key.
fn configs() -> Result<(ClientConfig, ServerConfig), Error> {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = own.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()).into();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone())?;
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let server = ServerConfig::builder().with_no_client_auth();
    Ok((client, server.with_single_cert(vec![certificate], key)?))
}

#[test]
fn futures_rustls_over_our_streams() -> Result<(), Error> {
    let (client, server) = configs()?;
    run(3, async {
        let (connector, acceptor) =
            (TlsConnector::from(Arc::new(client)), TlsAcceptor::from(Arc::new(server)));
        let (here, there) = pair().await?;
        let echo = spawn(async move {
            let mut stream = acceptor.accept(there).await?;
            let mut data = Vec::new();
            stream.read_to_end(&mut data).await?;
            stream.write_all(&data).await?;
            stream.close().await
        });
        let mut stream = connector.connect(ServerName::try_from("localhost")?, here).await?;
        let data = pattern(500_000);
        stream.write_all(&data).await?;
        stream.close().await?;
        let mut echoed = Vec::new();
        stream.read_to_end(&mut echoed).await?;
        assert!(echoed == data);
        Ok(echo.await??)
    })
}

#[test]
fn futures_rustls_refuses_another_name() -> Result<(), Error> {
    let (client, server) = configs()?;
    run(2, async {
        let (here, there) = pair().await?;
        let accepting = spawn(TlsAcceptor::from(Arc::new(server)).accept(there));
        let connector = TlsConnector::from(Arc::new(client));
        let name = ServerName::try_from("elsewhere")?;
        let error = connector.connect(name, here).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
        assert!(accepting.await?.is_err());
        Ok(())
    })
}

/// h2 uses tokio's traits; `tokio-util` converts those of `futures-io`. Flow control works in both
/// directions: the bodies are larger than the windows.
#[test]
fn h2_without_hyper() -> Result<(), Error> {
    const LEN: usize = 200_000;

    async fn body(mut stream: h2::RecvStream) -> Result<Vec<u8>, h2::Error> {
        let mut body = Vec::new();
        while let Some(data) = stream.data().await {
            let data = data?;
            stream.flow_control().release_capacity(data.len())?;
            body.extend_from_slice(&data);
        }
        Ok(body)
    }

    run(3, async {
        let (here, there) = pair().await?;
        let serve = spawn(async move {
            let mut connection = server::handshake(there.compat()).await?;
            let mut echoes = JoinSet::new();
            while let Some(request) = connection.accept().await {
                let (request, mut respond) = request?;
                echoes.spawn(async move {
                    let body = body(request.into_body()).await?;
                    let mut send = respond.send_response(Response::new(()), false)?;
                    send.send_data(body.into(), true)
                });
            }
            while let Some(echo) = echoes.join_next().await {
                echo??;
            }
            Ok::<_, Error>(())
        });
        let (sender, connection) = client::handshake(here.compat()).await?;
        let connection = spawn(connection);
        let streams = (0..20).map(|i| {
            let sender = sender.clone();
            spawn(async move {
                let mut sender = sender.ready().await?;
                let request = Request::post(format!("http://localhost/{i}")).body(())?;
                let (response, mut send) = sender.send_request(request, false)?;
                let data = pattern(LEN + i);
                send.send_data(data.clone().into(), true)?;
                assert!(body(response.await?.into_body()).await? == data);
                Ok::<_, Error>(())
            })
        });
        for stream in join_all(streams.collect::<Vec<_>>()).await {
            stream??;
        }
        drop(sender);
        connection.await??;
        serve.await?
    })
}
