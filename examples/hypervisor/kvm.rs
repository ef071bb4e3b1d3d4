//! A virtual processor of Linux's KVM, in real mode.

use core::{
    mem::offset_of,
    ptr::{NonNull, null_mut},
    sync::atomic::AtomicU8,
};
use std::{
    os::fd::AsRawFd,
    sync::{Mutex, Once, OnceLock, PoisonError},
};

use kvm_bindings::{kvm_run, kvm_userspace_memory_region};
use kvm_ioctls::{Error, Kvm, VcpuExit, VcpuFd, VmFd};

use crate::guest::{Exit, Processor};

/// The begin of the guest's memory, and of its code.
const START: u64 = 0x1000;
const CODE: [u8; 10] = [
    0xB9, 0x00, 0x10, // mov cx, 0x1000
    0xE2, 0xFE, // loop to itself: it computes
    0xE6, 0x10, // out 0x10, al: it asks for a block
    0xF4, // hlt: until the block has come
    0xEB, 0xF6, // jmp to the first
];

/// All the memory of a guest. It never writes to it.
#[repr(align(4096))]
struct Page([u8; 4096]);

static MEMORY: Page = {
    let mut page = [0; 4096];
    let mut i = 0;
    while i < CODE.len() {
        page[i] = CODE[i];
        i += 1;
    }
    Page(page)
};

struct Vcpu {
    /// Its own thread holds the lock while it runs the guest.
    fd: Mutex<VcpuFd>,
    shared: SharedPage,
    thread: OnceLock<libc::pthread_t>,
    /// Keeps the machine alive.
    _vm: VmFd,
}

/// A second mapping of the page that KVM shares for a processor. `VcpuFd` borrows the first mapping
/// as `&mut` while it runs, so no other thread may access that one.
///
/// INV-PAGE: mapped as long as this lives, and only `immediate_exit` is accessed, as an atomic.
struct SharedPage(NonNull<libc::c_void>);

// SAFETY: INV-PAGE; an atomic is shared by its pointer.
unsafe impl Send for SharedPage {}
// SAFETY: as above.
unsafe impl Sync for SharedPage {}

impl SharedPage {
    const LEN: usize = 4096;

    fn map(fd: &VcpuFd) -> Result<Self, Error> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let page = unsafe {
            libc::mmap(null_mut(), Self::LEN, access, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if page == libc::MAP_FAILED {
            return Err(Error::last());
        }
        NonNull::new(page).map(Self).ok_or(Error::new(libc::ENOMEM))
    }

    fn exit_request(&self) -> &AtomicU8 {
        // SAFETY: INV-PAGE. KVM reads the byte, and all others use it as this atomic.
        unsafe { self.0.byte_add(offset_of!(kvm_run, immediate_exit)).cast().as_ref() }
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: INV-PAGE ends here; references borrow `self`.
        unsafe { libc::munmap(self.0.as_ptr(), Self::LEN) };
    }
}

/// Linux's KVM; an error if this machine has none.
pub(crate) fn open() -> Result<Kvm, Error> {
    Kvm::new()
}

/// A guest's processor, in a machine of its own.
pub(crate) fn processor(kvm: &Kvm) -> Result<Box<dyn Processor>, Error> {
    let vm = kvm.create_vm()?;
    // SAFETY: `MEMORY` stays for ever. It is read-only for the guest, as for all other code.
    unsafe {
        vm.set_user_memory_region(kvm_userspace_memory_region {
            slot: 0,
            flags: kvm_bindings::KVM_MEM_READONLY,
            guest_phys_addr: START,
            memory_size: size_of::<Page>() as u64,
            userspace_addr: MEMORY.0.as_ptr() as u64,
        })?;
    }
    let fd = vm.create_vcpu(0)?;
    let mut segments = fd.get_sregs()?;
    (segments.cs.base, segments.cs.selector) = (0, 0);
    fd.set_sregs(&segments)?;
    let mut registers = fd.get_regs()?;
    // Bit 1 of the flags is always set.
    (registers.rip, registers.rflags) = (START, 2);
    fd.set_regs(&registers)?;
    let shared = SharedPage::map(&fd)?;
    Ok(Box::new(Vcpu { fd: Mutex::new(fd), shared, thread: OnceLock::new(), _vm: vm }))
}

impl Processor for Vcpu {
    fn attach(&self) {
        /// A handler that does nothing: the signal ends a `KVM_RUN`.
        extern "C" fn on_kick(_: libc::c_int) {}
        static HANDLED: Once = Once::new();
        HANDLED.call_once(|| {
            // SAFETY: a zeroed `sigaction` has no flags, so that calls end with `EINTR`.
            unsafe {
                let mut action: libc::sigaction = core::mem::zeroed();
                action.sa_sigaction = on_kick as extern "C" fn(libc::c_int) as libc::sighandler_t;
                libc::sigaction(libc::SIGUSR1, &action, core::ptr::null_mut());
            }
        });
        // SAFETY: no preconditions.
        let _ = self.thread.set(unsafe { libc::pthread_self() });
    }

    fn run(&self) -> Exit {
        let mut fd = self.fd.lock().unwrap_or_else(PoisonError::into_inner);
        match fd.run() {
            Ok(VcpuExit::IoOut(..)) => Exit::Asks,
            Ok(VcpuExit::Hlt) => Exit::Halts,
            Err(error) if error.errno() == libc::EINTR => Exit::Kicked,
            other => panic!("an exit that this guest does not have: {other:?}"),
        }
    }

    fn exit_request(&self) -> &AtomicU8 {
        self.shared.exit_request()
    }

    /// A request that comes before `KVM_RUN` ends it at once; the signal delivers a later one to
    /// the running guest.
    fn kick(&self) {
        if let Some(thread) = self.thread.get() {
            // SAFETY: the thread is not joined yet: it is joined after the shutdown, when there are
            // no more kicks.
            unsafe { libc::pthread_kill(*thread, libc::SIGUSR1) };
        }
    }
}
