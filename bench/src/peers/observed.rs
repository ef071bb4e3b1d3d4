//! Tokio with what shows its users what it does. Both need `--cfg tokio_unstable`, and `../flight-recorder` builds them.

#[cfg(feature = "console")]
use tokio::runtime::{Builder, Runtime};

/// With the server and the layer of tokio-console, to which no console is connected.
#[cfg(feature = "console")]
pub(crate) fn console(builder: &mut Builder) -> Runtime {
    console_subscriber::init();
    builder.build().expect("the runtime starts")
}

#[cfg(feature = "dial9")]
pub(crate) use self::dial9::start as dial9;

#[cfg(feature = "dial9")]
mod dial9 {
    use dial9_tokio_telemetry::telemetry::{
        Dial9HandleTokioExt, MemoryBuffer, TokioAttachOptions, recorder,
    };
    use tokio::runtime::{Builder, Runtime};

    /// Bytes of the trace that are kept.
    const BYTES: u64 = 16 << 20;

    /// With dial9's events: polls, sleeps, spawns and ends of tasks, and wakes of those that its functions spawn. In memory alone.
    pub(crate) fn start(builder: Builder) -> Runtime {
        let recorder = recorder(MemoryBuffer::new(BYTES).expect("there is memory")).build();
        let options = TokioAttachOptions::builder().task_tracking_enabled(true).build();
        let runtime = recorder.handle().attach_tokio_runtime(builder, options);
        // It records until the process ends.
        core::mem::forget(recorder);
        runtime.expect("the runtime starts")
    }
}
