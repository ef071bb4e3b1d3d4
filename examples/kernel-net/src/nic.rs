//! The network card: virtio-net with registers in memory, as a device of smoltcp.
//!
//! The card interrupts when it has received a packet, or sent one. The handler acknowledges, and sets a readiness cell;
//! all else is done by the task of the interface, see `stack`.

use core::{cell::UnsafeCell, ptr::NonNull};

use filch::{
    atomic::{AtomicUsize, Ordering, fence},
    io::Ready,
};
use heapless::Vec;
use smoltcp::{
    phy::{self, Device, DeviceCapabilities, Medium},
    time::Instant,
};
use static_cell::ConstStaticCell;
use virtio_drivers::{
    BufferDirection, Hal, PAGE_SIZE, PhysAddr,
    device::net::VirtIONetRaw,
    transport::{DeviceType, Transport, mmio::MmioTransport},
};

use crate::{delays, devices, stack};

/// The board has so many places for virtio devices, from this address on, with numbers at the PLIC from 1 on.
const PLACES: usize = 8;
const FIRST: usize = 0x1000_1000;
const SIZE: usize = 0x1000;
/// Registers of a place: which interrupts are pending, and where they are acknowledged.
const PENDING: usize = 0x60;
const ACKNOWLEDGE: usize = 0x64;

/// Packets in each direction that the card can have at once.
const RING: usize = 64;
/// The driver's header and a packet; virtio's least.
const FRAME: usize = 1_526;
/// An Ethernet header, and 1,500 bytes.
const MTU: usize = 1_514;

type Card = VirtIONetRaw<Memory, MmioTransport<'static>, RING>;

/// Where the card's registers are: for the handler.
static REGISTERS: AtomicUsize = AtomicUsize::new(0);
static RECEIVED: ConstStaticCell<[[u8; FRAME]; RING]> = ConstStaticCell::new([[0; FRAME]; RING]);
static SENT: ConstStaticCell<[[u8; FRAME]; RING]> = ConstStaticCell::new([[0; FRAME]; RING]);

/// The card, and the buffers that it shares with us.
pub struct Nic {
    card: Card,
    /// INV-RECEIVED: the card owns buffer `token`, from `receive_begin`, which returned `token`, to `receive_complete`.
    received: &'static mut [[u8; FRAME]; RING],
    /// The packet that smoltcp had last. The card gets its buffer back before the next.
    taken: Option<u16>,
    sent: Sent,
}

/// INV-SENT: the card owns the buffers that are not in `free`, from `transmit_begin` to `transmit_complete`.
struct Sent {
    buffers: &'static mut [[u8; FRAME]; RING],
    free: Vec<usize, RING>,
    /// By token: the buffer that the card has, and its length.
    under_way: [(usize, usize); RING],
}

/// The network card interrupts: on hart 0, at any time, so it touches only what no lock guards.
///
/// Acknowledged first: what the card does later interrupts again.
pub fn on_interrupt() {
    delays::interrupted();
    let registers = REGISTERS.load(Ordering::Relaxed);
    let pending: u32 = devices::read(registers + PENDING);
    devices::write(registers + ACKNOWLEDGE, pending);
    stack::WORK.set(Ready::READABLE);
}

impl Nic {
    /// The first network card of the board, which interrupts from now on. Called on hart 0.
    pub fn find() -> Result<Self, &'static str> {
        for place in 0..PLACES {
            let at = FIRST + SIZE * place;
            let header = NonNull::new(at as *mut _).ok_or("no address")?;
            // SAFETY: one of the board's places, and no other code drives its device.
            let Ok(transport) = (unsafe { MmioTransport::new(header, SIZE) }) else { continue };
            if transport.device_type() == DeviceType::Network {
                // Ordering: Relaxed; for this hart's handler, which comes after `enable`.
                REGISTERS.store(at, Ordering::Relaxed);
                let nic = Self::new(Card::new(transport).map_err(|_| "the card refuses")?)?;
                devices::enable(1 + place);
                return Ok(nic);
            }
        }
        Err("the board has no network card")
    }

    fn new(card: Card) -> Result<Self, &'static str> {
        let sent = Sent {
            buffers: SENT.try_take().ok_or("one card only")?,
            free: (0..RING).collect(),
            under_way: [(0, 0); RING],
        };
        let received = RECEIVED.try_take().ok_or("one card only")?;
        let mut nic = Self { card, received, taken: None, sent };
        for token in 0..RING as u16 {
            nic.give(token)?;
        }
        Ok(nic)
    }

    pub fn mac(&self) -> [u8; 6] {
        self.card.mac_address()
    }

    /// Whether packets can be sent only after the card has sent others, and has interrupted.
    pub fn is_full(&self) -> bool {
        self.sent.free.is_empty() || !self.card.can_send()
    }

    /// Lets the card receive into the buffer of this token.
    fn give(&mut self, token: u16) -> Result<(), &'static str> {
        let buffer = &mut self.received[usize::from(token)];
        // SAFETY: INV-RECEIVED: the card has completed it, or never had it.
        match unsafe { self.card.receive_begin(buffer) } {
            // The card's free descriptors are a stack, so it returns the number of the last that was completed.
            Ok(same) if same == token => Ok(()),
            _ => Err("the card mistakes its buffers"),
        }
    }

    /// The buffers of packets that the card has sent are free again.
    fn reclaim(&mut self) {
        while let Some(token) = again(|| self.card.poll_transmit()) {
            let (index, len) = self.sent.under_way[usize::from(token)];
            // SAFETY: INV-SENT: the buffer of this token.
            let done =
                unsafe { self.card.transmit_complete(token, &self.sent.buffers[index][..len]) };
            if done.is_ok() {
                let _ = self.sent.free.push(index);
            }
        }
    }
}

/// Asks the card for a completed buffer, and asks again before it takes no for an answer.
///
/// With the last buffer that was completed, the driver has told the card when to interrupt next (`used_event`). The card
/// may have completed another one just before it saw that, and then does not interrupt for it.
fn again(mut ask: impl FnMut() -> Option<u16>) -> Option<u16> {
    ask().or_else(|| {
        // Ordering: SeqCst: our store to `used_event` comes before the second look. Pairs with the card's barrier
        // between its store of the index and its look at `used_event`.
        fence(Ordering::SeqCst);
        ask()
    })
}

/// With the feature `lossy`: one packet of 50 is lost.
fn is_lost() -> bool {
    static PACKETS: AtomicUsize = AtomicUsize::new(0);
    cfg!(feature = "lossy") && PACKETS.fetch_add(1, Ordering::Relaxed) % 50 == 49
}

impl Device for Nic {
    type RxToken<'a> = Receive<'a>;
    type TxToken<'a> = Transmit<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Receive<'_>, Transmit<'_>)> {
        self.reclaim();
        if let Some(token) = self.taken.take()
            && let Err(error) = self.give(token)
        {
            panic!("{error}");
        }
        // The answer to a packet needs a buffer too.
        if self.is_full() {
            return None;
        }
        let token = again(|| self.card.poll_receive())?;
        let buffer = &mut self.received[usize::from(token)];
        // SAFETY: INV-RECEIVED: the buffer of this token.
        let packet = match unsafe { self.card.receive_complete(token, buffer) } {
            Ok((header, len)) if !is_lost() => &buffer[header..header + len],
            // Lost, or too short for a header. smoltcp ignores an empty packet.
            _ => &[],
        };
        self.taken = Some(token);
        Some((Receive(packet), Transmit { card: &mut self.card, sent: &mut self.sent }))
    }

    fn transmit(&mut self, _: Instant) -> Option<Transmit<'_>> {
        self.reclaim();
        if self.is_full() {
            return None;
        }
        Some(Transmit { card: &mut self.card, sent: &mut self.sent })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = MTU;
        capabilities.max_burst_size = Some(RING / 2);
        capabilities
    }
}

/// A packet that the card has received.
pub struct Receive<'a>(&'a [u8]);

impl phy::RxToken for Receive<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

/// Room for a packet to send: there is a free buffer.
pub struct Transmit<'a> {
    card: &'a mut Card,
    sent: &'a mut Sent,
}

impl phy::TxToken for Transmit<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let Self { card, sent } = self;
        let (Some(index), true) = (sent.free.pop(), len <= MTU) else {
            unreachable!("no room for {len} bytes, see `is_full`");
        };
        let buffer = &mut sent.buffers[index];
        let header = card.fill_buffer_header(buffer).unwrap_or_default();
        let result = f(&mut buffer[header..header + len]);
        let packet = &buffer[..header + len];
        // SAFETY: INV-SENT: it has left `free`.
        let begun = (!is_lost()).then(|| unsafe { card.transmit_begin(packet) });
        if let Some(Ok(token)) = begun {
            sent.under_way[usize::from(token)] = (index, header + len);
        } else {
            // Packets may be lost.
            let _ = sent.free.push(index);
        }
        result
    }
}

/// Memory that the card shares: addresses are the card's as well as ours, and caches are coherent.
struct Memory;

const PAGES: usize = 8;

/// INV-PAGES: each page is given away once, and never comes back: a card is for ever.
#[repr(C, align(4096))]
struct Pages(UnsafeCell<[[u8; PAGE_SIZE]; PAGES]>);

// SAFETY: INV-PAGES.
unsafe impl Sync for Pages {}

static POOL: Pages = Pages(UnsafeCell::new([[0; PAGE_SIZE]; PAGES]));
static GIVEN: AtomicUsize = AtomicUsize::new(0);

// SAFETY: `dma_alloc` gives aligned pages, which nothing else uses: INV-PAGES. They are zero since boot. The other
// methods pass on addresses, which are the same on both sides.
unsafe impl Hal for Memory {
    fn dma_alloc(pages: usize, _: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        // Ordering: Relaxed: it publishes nothing.
        let first = GIVEN.fetch_add(pages, Ordering::Relaxed);
        if first + pages > PAGES {
            // An error of the driver.
            return (0, NonNull::dangling());
        }
        // SAFETY: it is within the pool.
        let page = unsafe { NonNull::from(&POOL).cast::<u8>().add(first * PAGE_SIZE) };
        (page.as_ptr() as PhysAddr, page)
    }

    unsafe fn dma_dealloc(_: PhysAddr, _: NonNull<u8>, _: usize) -> i32 {
        0
    }

    unsafe fn mmio_phys_to_virt(at: PhysAddr, _: usize) -> NonNull<u8> {
        match NonNull::new(at as *mut u8) {
            Some(pointer) => pointer,
            None => panic!("no address"),
        }
    }

    unsafe fn share(buffer: NonNull<[u8]>, _: BufferDirection) -> PhysAddr {
        buffer.cast::<u8>().as_ptr() as PhysAddr
    }

    unsafe fn unshare(_: PhysAddr, _: NonNull<[u8]>, _: BufferDirection) {}
}
