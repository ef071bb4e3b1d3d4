//! The TCP/IP stack: smoltcp under a lock, and the task that drives it.

use core::time::Duration;

use filch::{
    Instant,
    io::{Readiness, Ready},
};
use smoltcp::{
    iface::{
        Config, Interface, PollIngressSingleResult as Ingress, PollResult as Egress, SocketHandle,
        SocketSet, SocketStorage,
    },
    socket::tcp,
    time,
    wire::{EthernetAddress, IpAddress, IpCidr},
};
use spin::{Mutex, Once};
use static_cell::ConstStaticCell;

use crate::{EXECUTOR, delays, mode, nic::Nic};

/// Connections that there can be at the same time. One more client is refused (RST).
pub const SOCKETS: usize = 32;
/// The addresses in the network of QEMU's user mode: there, all clients have one address, and two may have one port. If each talks
/// to an address of its own, their connections differ all the same.
pub const ADDRESSES: [IpCidr; 8] = {
    let mut addresses = [IpCidr::new(IpAddress::v4(10, 0, 2, 15), 24); 8];
    let mut i = 1;
    while i < addresses.len() {
        addresses[i] = IpCidr::new(IpAddress::v4(10, 0, 2, 15 + i as u8), 24);
        i += 1;
    }
    addresses
};
/// Packets in each direction that one poll of the task moves. Then others have their turn.
const BATCH: usize = 32;
/// Bytes on their way in each direction of a connection.
const RECEIVE: usize = 2_048;
const SEND: usize = 4_096;

/// What the interface's task waits for: `READABLE` is an interrupt of the card, `WRITABLE` a socket that has changed.
pub static WORK: Readiness = Readiness::new();

static STACK: Once<Mutex<Stack>> = Once::new();
static PLACES: ConstStaticCell<[SocketStorage<'static>; SOCKETS]> =
    ConstStaticCell::new([SocketStorage::EMPTY; SOCKETS]);
static INCOMING: ConstStaticCell<[[u8; RECEIVE]; SOCKETS]> =
    ConstStaticCell::new([[0; RECEIVE]; SOCKETS]);
static OUTGOING: ConstStaticCell<[[u8; SEND]; SOCKETS]> =
    ConstStaticCell::new([[0; SEND]; SOCKETS]);

/// The card, the interface and all sockets.
pub struct Stack {
    nic: Nic,
    interface: Interface,
    sockets: SocketSet<'static>,
}

/// When the task has something to do again, if nothing happens.
enum Next {
    /// At once: this was a batch.
    Now,
    At(Instant),
    Never,
}

/// Finds the card and makes the sockets. Called once, on hart 0.
pub fn set_up() -> Result<[SocketHandle; SOCKETS], &'static str> {
    let mut nic = Nic::find()?;
    let mut config = Config::new(EthernetAddress(nic.mac()).into());
    // Different at each boot, as far as the time that the boot takes is.
    config.random_seed = mode::time();
    let mut interface = Interface::new(config, &mut nic, now());
    interface.update_ip_addrs(|addresses| {
        let _ = addresses.extend_from_slice(&ADDRESSES);
    });
    let twice = "set up twice";
    let mut sockets = SocketSet::new(PLACES.try_take().ok_or(twice)?.as_mut_slice());
    let mut buffers = INCOMING.try_take().ok_or(twice)?.iter_mut();
    let mut others = OUTGOING.try_take().ok_or(twice)?.iter_mut();
    let handles = core::array::from_fn(|_| {
        let buffer =
            |bytes: Option<&'static mut [u8]>| tcp::SocketBuffer::new(bytes.unwrap_or_default());
        let incoming = buffer(buffers.next().map(|b| b.as_mut_slice()));
        let mut socket =
            tcp::Socket::new(incoming, buffer(others.next().map(|b| b.as_mut_slice())));
        // An answer is sent at once, and takes the acknowledgement along.
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(None);
        sockets.add(socket)
    });
    STACK.call_once(|| Mutex::new(Stack { nic, interface, sockets }));
    Ok(handles)
}

/// Runs `f` with the stack. Tasks spin for the lock, and cannot hold it across an await; handlers must not call this.
pub fn with<R>(f: impl FnOnce(&mut Stack) -> R) -> R {
    match STACK.get() {
        Some(stack) => f(&mut stack.lock()),
        None => unreachable!("tasks of the network are spawned after `set_up`"),
    }
}

/// Tells the interface's task that a socket has something to send, or another timer. Not with the lock held.
pub fn changed() {
    WORK.set(Ready::WRITABLE);
}

/// The interface: moves packets when the card interrupts, when a socket has changed, and when a timer of smoltcp is due.
#[filch::task]
pub async fn interface() {
    let mut next = Next::Now;
    loop {
        let wait = WORK.ready(Ready::READABLE | Ready::WRITABLE);
        let event = match next {
            Next::Now => {
                filch::yield_now().await;
                Some(WORK.get())
            }
            Next::At(end) => EXECUTOR.timers().timeout_at(end, wait).await.ok(),
            Next::Never => Some(wait.await),
        };
        delays::seen();
        next = with(Stack::poll);
        if let (Some(event), Next::At(_) | Next::Never) = (event, &next) {
            // All that it told is done. It stays set if there was more since.
            WORK.clear(event);
        }
    }
}

impl Stack {
    pub fn socket(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    /// How many sockets wait for a client.
    pub fn listening(&self) -> usize {
        let sockets = self.sockets.iter();
        sockets
            .filter(
                |(_, socket)| matches!(socket, smoltcp::socket::Socket::Tcp(s) if s.is_listening()),
            )
            .count()
    }

    /// Ends the connection: what is on its way is lost, and the client gets an RST.
    pub fn abort(&mut self, handle: SocketHandle) {
        self.socket(handle).abort();
        let Self { nic, interface, sockets } = self;
        interface.poll_egress(now(), nic, sockets);
    }

    /// Moves packets, a batch at most.
    fn poll(&mut self) -> Next {
        let Self { nic, interface, sockets } = self;
        let time = now();
        interface.poll_maintenance(time);
        let received = (0..BATCH)
            .take_while(|_| interface.poll_ingress_single(time, nic, sockets) != Ingress::None)
            .count();
        let sent = (0..BATCH)
            .take_while(|_| interface.poll_egress(time, nic, sockets) != Egress::None)
            .count();
        if received == BATCH || sent == BATCH {
            return Next::Now;
        }
        match interface.poll_delay(time, sockets) {
            // The card interrupts when there is room again.
            Some(time::Duration::ZERO) if nic.is_full() => Next::Never,
            Some(time::Duration::ZERO) => Next::Now,
            Some(delay) => {
                Next::At(EXECUTOR.timers().now() + Duration::from_micros(delay.total_micros()))
            }
            None => Next::Never,
        }
    }
}

fn now() -> time::Instant {
    time::Instant::from_micros((EXECUTOR.timers().now().as_nanos() / 1_000) as i64)
}
