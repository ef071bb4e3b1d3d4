//! Signals.

pub mod unix;

/// Waits for Ctrl-C (`SIGINT`), from its first poll on. Afterwards the signal no longer ends the program by itself.
///
/// # Errors
/// Those of the operating system.
///
/// # Panics
/// If there is no runtime, or it has no I/O.
pub async fn ctrl_c() -> std::io::Result<()> {
    let signal = unix::signal(unix::SignalKind::interrupt());
    crate::task::coop::spend_if_failed(signal).await?.recv().await;
    Ok(())
}
