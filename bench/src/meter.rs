//! Measures passes of a workload inside of a measuring process.

use core::{mem::MaybeUninit, time::Duration};
use std::{sync::OnceLock, time::Instant};

use serde::{Deserialize, Serialize};

use crate::counters;

/// One figure from one measuring process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) metric: String,
    pub(crate) unit: String,
    pub(crate) value: f64,
    pub(crate) allocs_per_op: Option<f64>,
    pub(crate) bytes_per_op: Option<f64>,
}

impl Figure {
    pub(crate) fn new(metric: &str, unit: &str, value: f64) -> Self {
        let (metric, unit) = (metric.into(), unit.into());
        Self { metric, unit, value, allocs_per_op: None, bytes_per_op: None }
    }
}

/// How long a measuring process takes for one row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) quick: bool,
}

impl Effort {
    /// For how long passes are repeated.
    pub(crate) fn time(self) -> Duration {
        Duration::from_millis(if self.quick { 60 } else { 300 })
    }

    /// `full`, or a tenth of it for a quick run.
    pub(crate) fn scale(self, full: usize) -> usize {
        if self.quick { full / 10 } else { full }
    }
}

/// What a process has used up to a moment.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// Since a fixed moment in the life of this process.
    wall: Duration,
    cpu: Duration,
    switches: u64,
    counted: counters::Totals,
}

static BEGIN: OnceLock<Instant> = OnceLock::new();

impl Usage {
    pub(crate) fn now() -> Self {
        let wall = BEGIN.get_or_init(Instant::now).elapsed();
        Self { wall, cpu: cpu_time(), switches: switches(), counted: counters::totals() }
    }

    /// The use since then, as figures per operation.
    pub(crate) fn since(self, operations: f64) -> Vec<Figure> {
        self.until(&Self::now(), operations)
    }

    /// The use until then, as figures per operation.
    pub(crate) fn until(self, now: &Self, operations: f64) -> Vec<Figure> {
        let per_op = |from: u64, to: u64| (to - from) as f64 / operations;
        let wall = (now.wall - self.wall).as_nanos() as f64 / operations;
        let mut time = Figure::new("time", "ns", wall);
        let (from, to) = (&self.counted, &now.counted);
        time.allocs_per_op = Some(per_op(from.allocations, to.allocations));
        time.bytes_per_op = Some(per_op(from.allocated, to.allocated));
        let cpu = (now.cpu - self.cpu).as_nanos() as f64 / operations;
        let mut figures = vec![
            time,
            Figure::new("cpu", "ns", cpu),
            Figure::new("switches", "1/op", per_op(self.switches, now.switches)),
        ];
        if cfg!(all(target_arch = "x86_64", target_os = "linux")) {
            let futex = per_op(from.futex_calls, to.futex_calls);
            figures.push(Figure::new("futex", "1/op", futex));
        }
        figures
    }
}

/// Repeats `pass`, which makes `operations` operations, after a warm-up. The time is the median of the passes; the rest is the
/// mean of all.
pub(crate) fn passes(effort: Effort, operations: usize, mut pass: impl FnMut()) -> Vec<Figure> {
    pass();
    pass();
    // Room for all of them: the growth of the list must not be counted.
    let mut times = Vec::with_capacity(1 << 16);
    let begin = Instant::now();
    let usage = Usage::now();
    while times.len() < 3 || (begin.elapsed() < effort.time() && times.len() < times.capacity()) {
        let at = Instant::now();
        pass();
        times.push(at.elapsed().as_nanos() as f64 / operations as f64);
    }
    let mut figures = usage.since((operations * times.len()) as f64);
    figures[0].value = percentile(&mut times, 50.0);
    figures
}

/// The value below which `percent` of the samples are. Sorts them.
pub(crate) fn percentile(samples: &mut [f64], percent: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let last = samples.len().saturating_sub(1);
    samples.get((last as f64 * percent / 100.0).round() as usize).copied().unwrap_or(f64::NAN)
}

/// Median and tail of latencies, given in nanoseconds, as microseconds.
pub(crate) fn latencies(samples: &mut [f64]) -> Vec<Figure> {
    [("p50", 50.0), ("p99", 99.0)]
        .map(|(name, percent)| Figure::new(name, "us", percentile(samples, percent) / 1e3))
        .into()
}

/// The processor time of this process.
pub(crate) fn cpu_time() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the call fills the struct in; this clock exists.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, time.as_mut_ptr());
        time.assume_init()
    };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// How often a thread of this process has gone to sleep.
pub(crate) fn switches() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills the struct in, which is plain numbers.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_nvcsw as u64
}
