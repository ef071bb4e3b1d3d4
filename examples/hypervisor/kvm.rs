//! A virtual processor of Linux's KVM, in real mode.

use core::{ptr::NonNull, sync::atomic::AtomicU8};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::{Error, Kvm, VcpuExit, VcpuFd, VmFd};

use crate::guest::{Exit, Processor};

/// Where the guest's memory begins, and its code.
const START: u64 = 0x1000;
const CODE: [u8; 10] = [
    0xB9, 0x00, 0x10, // mov cx, 0x1000
    0xE2, 0xFE, // loop to itself: it computes
    0xE6, 0x10, // out 0x10, al: it asks for a block
    0xF4, // hlt: until the block has come
    0xEB, 0xF6, // jmp to the first
];

/// All the memory that a guest has. It never writes to it.
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
    /// Locked by its own thread, while that runs the guest.
    fd: Mutex<VcpuFd>,
    /// `immediate_exit` in the page that KVM shares for this processor. INV-PAGE: mapped as long as `fd` is open.
    exit_request: NonNull<AtomicU8>,
    thread: OnceLock<libc::pthread_t>,
    /// Keeps the machine.
    _vm: VmFd,
}

// SAFETY: INV-PAGE; an atomic is shared by its pointer.
unsafe impl Send for Vcpu {}
// SAFETY: as above.
unsafe impl Sync for Vcpu {}

/// A guest's processor, in a machine of its own.
pub(crate) fn processor() -> Result<Box<dyn Processor>, Error> {
    let vm = Kvm::new()?.create_vm()?;
    // SAFETY: `MEMORY` stays for ever. It is read-only for the guest, as it is for everybody.
    unsafe {
        vm.set_user_memory_region(kvm_userspace_memory_region {
            slot: 0,
            flags: kvm_bindings::KVM_MEM_READONLY,
            guest_phys_addr: START,
            memory_size: size_of::<Page>() as u64,
            userspace_addr: MEMORY.0.as_ptr() as u64,
        })?;
    }
    let mut fd = vm.create_vcpu(0)?;
    let mut segments = fd.get_sregs()?;
    (segments.cs.base, segments.cs.selector) = (0, 0);
    fd.set_sregs(&segments)?;
    let mut registers = fd.get_regs()?;
    // Bit 1 of the flags is always set.
    (registers.rip, registers.rflags) = (START, 2);
    fd.set_regs(&registers)?;
    let exit_request = NonNull::from(&mut fd.get_kvm_run().immediate_exit).cast();
    Ok(Box::new(Vcpu { fd: Mutex::new(fd), exit_request, thread: OnceLock::new(), _vm: vm }))
}

impl Processor for Vcpu {
    fn attach(&self) {
        /// A handler that does nothing: the signal ends the `KVM_RUN` that it hits.
        extern "C" fn on_kick(_: libc::c_int) {}
        static HANDLED: Once = Once::new();
        HANDLED.call_once(|| {
            // SAFETY: a zeroed `sigaction` is one without flags, so that calls end by `EINTR`.
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
        // SAFETY: INV-PAGE. KVM reads the byte, and all others use it as this atomic.
        unsafe { self.exit_request.as_ref() }
    }

    /// A request that came before `KVM_RUN` ends that at once; one that comes later, the signal brings to the guest's notice.
    fn kick(&self) {
        if let Some(thread) = self.thread.get() {
            // SAFETY: a thread that is not joined yet: that comes after the shutdown, when nobody kicks any more.
            unsafe { libc::pthread_kill(*thread, libc::SIGUSR1) };
        }
    }
}
