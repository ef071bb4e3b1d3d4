//! A system without IPv6.

use libc::{
    AF_INET6, BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, EAFNOSUPPORT, SYS_socket,
    sock_filter, sock_fprog,
};

/// From now on the calling thread, and those that it starts, cannot make sockets for IPv6: for a test in a process of its own.
///
/// # Panics
/// If the system allows no filters.
pub fn without_ipv6() {
    // Where `seccomp_data` has the number of the call, and the lower half of its first argument.
    const NUMBER: u32 = 0;
    const FAMILY: u32 = if cfg!(target_endian = "little") { 16 } else { 20 };
    let step = |code: u32, k, jt, jf| sock_filter { code: code as u16, jt, jf, k };
    let load = |at| step(BPF_LD | BPF_W | BPF_ABS, at, 0, 0);
    let skip_unless = |value, steps| step(BPF_JMP | BPF_JEQ | BPF_K, value, 0, steps);
    let answer = |action| step(BPF_RET | BPF_K, action, 0, 0);
    let mut steps = [
        load(NUMBER),
        skip_unless(SYS_socket as u32, 3),
        load(FAMILY),
        skip_unless(AF_INET6 as u32, 1),
        answer(libc::SECCOMP_RET_ERRNO | EAFNOSUPPORT as u32),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    let program = sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the system copies the program, which is whole; both calls concern this thread and those that it starts.
    let filtered = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    assert!(filtered, "a filter");
}
