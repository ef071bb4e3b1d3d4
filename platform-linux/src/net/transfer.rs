//! The system calls that move the bytes of a connection.

use std::{
    io::{self, IoSlice, IoSliceMut},
    os::fd::AsFd,
};

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};

/// The most buffers that the system takes at once. rustix's `readv` uses only this many too.
const IOV_MAX: usize = 1_024;

/// `buf` must not be empty: otherwise the system would wait for a byte, and leave it.
pub(super) fn receive(socket: impl AsFd, buf: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
    Ok(rustix::net::recv(socket, buf, flags)?.0)
}

/// As [`receive`], into the part of the buffer that is not filled, which must not be empty.
#[cfg(feature = "tokio")]
pub(super) fn receive_buf(
    socket: impl AsFd,
    buf: &mut tokio::io::ReadBuf<'_>,
) -> io::Result<usize> {
    crate::tokio::fill(buf, |room| {
        let ((filled, _), _) = rustix::net::recv(socket, room, RecvFlags::empty())?;
        Ok(filled.len())
    })
}

/// There must be [`room`].
pub(super) fn receive_vectored(
    socket: impl AsFd,
    bufs: &mut [IoSliceMut<'_>],
) -> io::Result<usize> {
    Ok(rustix::io::readv(socket, bufs)?)
}

/// How much [`receive_vectored`] reads at most: the system takes a limited number of buffers.
pub(super) fn room(bufs: &[IoSliceMut<'_>]) -> usize {
    bufs.iter().take(IOV_MAX).map(|buf| buf.len()).sum()
}

pub(super) fn send(socket: impl AsFd, buf: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, buf, SendFlags::NOSIGNAL)?)
}

pub(super) fn send_vectored(socket: impl AsFd, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
    // More would be an error, and not a short write.
    let bufs = &bufs[..bufs.len().min(IOV_MAX)];
    let mut no_control = SendAncillaryBuffer::default();
    Ok(rustix::net::sendmsg(socket, bufs, &mut no_control, SendFlags::NOSIGNAL)?)
}
