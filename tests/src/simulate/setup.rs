//! The parameters of an episode, chosen from its seed.

use core::time::Duration;

use fastrand::Rng;
use filch::{BUDGET, Config};

use super::{
    Options,
    faults::{Dice, Fault},
    programs::Program,
};

/// An episode that has not begun.
pub(super) struct Setup {
    pub(super) program: Program,
    pub(super) workers: u16,
    pub(super) spares: u16,
    pub(super) config: Chosen,
    /// The seed of the workers' choices.
    pub(super) seed: u64,
    /// The seed of the program's choices.
    pub(super) choices: u64,
    pub(super) size: u32,
    pub(super) pace: u8,
    pub(super) dice: Dice,
    /// Whether workers go offline and come back.
    pub(super) come_and_go: bool,
    /// Whether the executor is resized now and then.
    pub(super) resizes: bool,
    /// How often, of 256, a call of the platform switches fibers.
    pub(super) preempt: u32,
    /// How often, of 256, the fiber that stopped goes on.
    pub(super) stick: u32,
    pub(super) steps: u64,
    /// The end comes after so many rounds from outside, whatever the steps.
    pub(super) rounds: Option<u32>,
    pub(super) trace: bool,
    /// See [`Options::file`].
    pub(super) file: Option<String>,
    /// The machine's choices.
    pub(super) rng: Rng,
}

impl Setup {
    pub(super) fn new(options: &Options) -> Self {
        let mut rng = Rng::with_seed(options.seed);
        let workers = rng.u16(1..=6);
        let program = Program::ALL[rng.usize(..Program::ALL.len())];
        let (mut config, spares) = config(&mut rng, options.faults.contains(Fault::Refuse));
        if options.program.unwrap_or(program) == Program::Blocks {
            // A worker gives its tasks away as it begins to block.
            config.caps = false;
            if options.seed % 2 == 0 {
                config.wait_at_once();
            }
        }
        Self {
            program: options.program.unwrap_or(program),
            workers: options.workers.unwrap_or(workers).clamp(1, 64),
            spares,
            config,
            seed: rng.u64(..),
            choices: rng.u64(..),
            size: options.size,
            pace: rng.u8(..5),
            dice: Dice::new(options.faults, &mut rng),
            come_and_go: options.faults.contains(Fault::Offline),
            preempt: [4, 32, 128, 256][rng.usize(..4)],
            stick: [0, 0, 128, 240][rng.usize(..4)],
            steps: options.steps,
            rounds: None,
            trace: options.trace,
            file: options.file.clone(),
            resizes: options.faults.contains(Fault::Resize) && rng.u8(..3) == 0,
            rng,
        }
    }
}

/// An executor's configuration, and what the checks need of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    config: Config,
    pub(super) lifo_cap: u32,
    /// See `Config::background_share`.
    pub(super) background: u32,
    pub(super) stealing: bool,
    /// The longest first sleep beside an only worker, if there is a watchdog.
    pub(super) close: Option<u64>,
    /// Whether no worker blocks in a join too deep.
    pub(super) caps: bool,
}

impl Chosen {
    /// Every wait in sync code is too deep to run other tasks.
    fn wait_at_once(&mut self) {
        self.config = self.config.nesting(0);
    }

    pub(super) fn build(&self, spares: u16, seed: u64) -> Config {
        self.config.spare_slots(spares).seed(seed)
    }
}

fn config(rng: &mut Rng, may_start: bool) -> (Chosen, u16) {
    let lifo_cap = rng.u32(..5);
    let stealing = rng.u8(..8) != 0;
    let timeouts = rng.bool().then_some((Duration::from_micros(500), Duration::from_millis(10)));
    let close = timeouts.map(|(shortest, _)| 2 * shortest.as_nanos() as u64);
    let nesting = [2, 8, 64][rng.usize(..3)];
    let config = Config::new()
        .stealing(stealing)
        .lifo_cap(lifo_cap)
        .watchdog(timeouts)
        .spin_rounds([0, 1, 8][rng.usize(..3)])
        .nesting(nesting)
        .timer_resolution(Duration::from_nanos(1 << rng.u32(10..20)));
    let background = [16, 16, 2, 0][rng.usize(..4)];
    let budget = [BUDGET as u16, BUDGET as u16, 1, 7][rng.usize(..4)];
    let config = config.background_share(background).budget(budget);
    let spares = if may_start || rng.bool() { rng.u16(..3) } else { 0 };
    (Chosen { config, lifo_cap, background, stealing, close, caps: nesting == 64 }, spares)
}
