//! monoio, over io_uring, on one thread.

use std::{io, net, thread};

use monoio::{
    IoUringDriver, RuntimeBuilder,
    io::{AsyncReadRent, AsyncWriteRentExt},
    net::{TcpListener, TcpStream},
};

pub(crate) fn echo(listener: net::TcpListener) {
    thread::spawn(move || {
        let runtime = RuntimeBuilder::<IoUringDriver>::new().build();
        runtime.expect("the kernel has io_uring").block_on(async move {
            let listener = TcpListener::from_std(listener).expect("it is a listener");
            while let Ok((stream, _)) = listener.accept().await {
                monoio::spawn(async move {
                    // A broken connection is reported by the client.
                    drop(back(stream).await);
                });
            }
        });
    });
}

async fn back(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(1024);
    loop {
        let (read, filled) = stream.read(buffer).await;
        if read? == 0 {
            return Ok(());
        }
        let (written, mut used) = stream.write_all(filled).await;
        written?;
        used.clear();
        buffer = used;
    }
}
