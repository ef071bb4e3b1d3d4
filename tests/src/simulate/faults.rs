//! What may go wrong.

use core::{fmt, str::FromStr};

use fastrand::Rng;

/// A fault that happens now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// A sleep ends spuriously, or does not begin.
    Spurious,
    /// A wake or an interrupt arrives much later; a deadline passes unnoticed for a while.
    Late,
    /// A wake, or an interrupt, arrives twice.
    Duplicate,
    /// The clock stops for a while.
    ClockStall,
    /// The clock jumps ahead.
    ClockJump,
    /// A worker goes offline, and comes back.
    Offline,
    /// A fiber stops at any point, for a long time.
    Stall,
    /// The platform refuses to start a compensation worker.
    Refuse,
    /// An operation on a pipe fails, and would succeed if it were tried again.
    IoError,
    /// An operation transfers less than it could.
    Short,
    /// A connection is reset.
    Reset,
    /// The executor is resized: no fault, but as hard on the tasks.
    Resize,
    /// Not allowed: a wake is lost. For tests of the simulation itself.
    Lose,
}

const ALL: [(Fault, &str); 13] = [
    (Fault::Spurious, "spurious"),
    (Fault::Late, "late"),
    (Fault::Duplicate, "duplicate"),
    (Fault::ClockStall, "clock-stall"),
    (Fault::ClockJump, "clock-jump"),
    (Fault::Offline, "offline"),
    (Fault::Stall, "stall"),
    (Fault::Refuse, "refuse"),
    (Fault::IoError, "io-error"),
    (Fault::Short, "short"),
    (Fault::Reset, "reset"),
    (Fault::Resize, "resize"),
    (Fault::Lose, "lose"),
];

/// A set of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults(u16);

impl Faults {
    /// The empty set.
    pub const fn none() -> Self {
        Self(0)
    }

    /// All faults that the contract allows.
    pub const fn all() -> Self {
        Self((1 << Fault::Lose as u8) - 1)
    }

    /// Adds this fault.
    #[must_use]
    pub const fn with(self, fault: Fault) -> Self {
        Self(self.0 | 1 << fault as u8)
    }

    /// Removes this fault.
    #[must_use]
    pub const fn without(self, fault: Fault) -> Self {
        Self(self.0 & !(1 << fault as u8))
    }

    /// Whether the set contains this fault.
    pub const fn contains(self, fault: Fault) -> bool {
        self.0 & 1 << fault as u8 != 0
    }

    /// The faults in the set.
    pub fn iter(self) -> impl Iterator<Item = Fault> {
        ALL.into_iter().map(|(fault, _)| fault).filter(move |fault| self.contains(*fault))
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::all() {
            return f.write_str("all");
        }
        if *self == Self::none() {
            return f.write_str("none");
        }
        let names: Vec<_> =
            ALL.iter().filter(|(fault, _)| self.contains(*fault)).map(|(_, name)| *name).collect();
        f.write_str(&names.join(","))
    }
}

impl FromStr for Faults {
    type Err = String;

    /// `all`, `none`, or names between commas, `all` among them.
    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').try_fold(Self::none(), |set, name| match name {
            "none" => Ok(set),
            "all" => Ok(Self(set.0 | Self::all().0)),
            _ => {
                let known = ALL.iter().find(|(_, known)| *known == name);
                let names = ALL.map(|(_, name)| name).join(", ");
                known
                    .map(|(fault, _)| set.with(*fault))
                    .ok_or_else(|| format!("no such fault: {name} (have: all, none, {names})"))
            }
        })
    }
}

/// How often each fault happens, in one episode.
#[derive(Debug, Default)]
pub(super) struct Dice {
    /// Its probability, of 65,536.
    chances: [u32; ALL.len()],
    /// How many have happened.
    pub(super) injected: u64,
}

impl Dice {
    pub(super) fn new(faults: Faults, rng: &mut Rng) -> Self {
        let mut chances = [0; ALL.len()];
        for fault in faults.iter() {
            // Some episodes do not have this fault, some have little else.
            let often = match rng.u8(..8) {
                0 | 1 => 0,
                2..5 => 1,
                5 | 6 => 8,
                _ => 40,
            };
            chances[fault as usize] = often * usual(fault);
        }
        if faults.contains(Fault::Lose) {
            chances[Fault::Lose as usize] = usual(Fault::Lose);
        }
        Self { chances, injected: 0 }
    }

    /// Whether the fault happens this time.
    pub(super) fn roll(&mut self, fault: Fault, rng: &mut Rng) -> bool {
        let chance = self.chances[fault as usize];
        let happens = chance > 0 && rng.u32(..1 << 16) < chance;
        self.injected += u64::from(happens);
        happens
    }
}

/// The usual probability of a fault, of 65,536.
fn usual(fault: Fault) -> u32 {
    match fault {
        Fault::Stall | Fault::ClockStall | Fault::ClockJump => 8,
        Fault::Reset => 64,
        Fault::Offline
        | Fault::Resize
        | Fault::Spurious
        | Fault::Late
        | Fault::Duplicate
        | Fault::IoError => 256,
        Fault::Short | Fault::Refuse | Fault::Lose => 1_024,
    }
}
