//! What a file is ready for, and what is waited for.

use core::{
    fmt,
    ops::{BitAnd, BitOr, BitOrAssign, Sub},
};

/// What a file is ready for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ready(pub(crate) u8);

const R: u8 = 1;
const W: u8 = 1 << 1;
const RC: u8 = 1 << 2;
const WC: u8 = 1 << 3;
const P: u8 = 1 << 4;
const E: u8 = 1 << 5;

type Core = filch::io::Ready;
const PAIRS: [(u8, Core); 6] = [
    (R, Core::READABLE),
    (W, Core::WRITABLE),
    (RC, Core::READ_CLOSED),
    (WC, Core::WRITE_CLOSED),
    (P, Core::PRIORITY),
    (E, Core::ERROR),
];

impl Ready {
    /// For nothing.
    pub const EMPTY: Self = Self(0);
    /// Reads.
    pub const READABLE: Self = Self(R);
    /// Writes.
    pub const WRITABLE: Self = Self(W);
    /// The peer writes no more.
    pub const READ_CLOSED: Self = Self(RC);
    /// The peer reads no more.
    pub const WRITE_CLOSED: Self = Self(WC);
    /// Urgent data.
    pub const PRIORITY: Self = Self(P);
    /// There is an error.
    pub const ERROR: Self = Self(E);
    /// All of these.
    pub const ALL: Self = Self(R | W | RC | WC | P | E);

    pub(crate) fn from_core(core: Core) -> Self {
        let bits = PAIRS.iter().filter(|(_, of_core)| core.contains(*of_core));
        Self(bits.fold(0, |all, (bit, _)| all | bit))
    }

    pub(crate) fn to_core(self) -> Core {
        let bits = PAIRS.iter().filter(|(bit, _)| self.0 & bit != 0);
        bits.fold(Core::EMPTY, |all, (_, of_core)| all | *of_core)
    }

    /// Whether it is ready for nothing.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a read would not block.
    pub fn is_readable(self) -> bool {
        self.0 & (R | RC) != 0
    }

    /// Whether a write would not block.
    pub fn is_writable(self) -> bool {
        self.0 & (W | WC) != 0
    }

    /// Whether the peer writes no more.
    pub fn is_read_closed(self) -> bool {
        self.0 & RC != 0
    }

    /// Whether the peer reads no more.
    pub fn is_write_closed(self) -> bool {
        self.0 & WC != 0
    }

    /// Whether there is urgent data.
    pub fn is_priority(self) -> bool {
        self.0 & P != 0
    }

    /// Whether there is an error.
    pub fn is_error(self) -> bool {
        self.0 & E != 0
    }
}

impl BitOr for Ready {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Ready {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for Ready {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Sub for Ready {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready")
            .field("is_readable", &self.is_readable())
            .field("is_writable", &self.is_writable())
            .field("is_read_closed", &self.is_read_closed())
            .field("is_write_closed", &self.is_write_closed())
            .field("is_error", &self.is_error())
            .field("is_priority", &self.is_priority())
            .finish()
    }
}

/// What is waited for. It is never empty.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Interest(u8);

impl Interest {
    /// Reads.
    pub const READABLE: Self = Self(R);
    /// Writes.
    pub const WRITABLE: Self = Self(W);
    /// Urgent data.
    pub const PRIORITY: Self = Self(P);
    /// An error.
    pub const ERROR: Self = Self(E);

    /// Whether reads are waited for.
    pub const fn is_readable(self) -> bool {
        self.0 & R != 0
    }

    /// Whether writes are waited for.
    pub const fn is_writable(self) -> bool {
        self.0 & W != 0
    }

    /// Whether urgent data are waited for.
    pub const fn is_priority(self) -> bool {
        self.0 & P != 0
    }

    /// Whether an error is waited for.
    pub const fn is_error(self) -> bool {
        self.0 & E != 0
    }

    /// Both.
    #[must_use = "this returns the result of the operation, without modifying the original"]
    pub const fn add(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This without the other; `None` if nothing is left.
    #[must_use = "this returns the result of the operation, without modifying the original"]
    pub fn remove(self, other: Self) -> Option<Self> {
        Some(Self(self.0 & !other.0)).filter(|left| left.0 != 0)
    }

    /// What ends a wait.
    pub(crate) fn mask(self) -> Ready {
        let mut mask = Ready(self.0);
        if self.is_readable() {
            mask |= Ready::READ_CLOSED;
        }
        if self.is_writable() {
            mask |= Ready::WRITE_CLOSED;
        }
        if self.is_priority() {
            mask |= Ready::READ_CLOSED;
        }
        mask
    }
}

impl BitOr for Interest {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.add(other)
    }
}

impl BitOrAssign for Interest {
    fn bitor_assign(&mut self, other: Self) {
        *self = self.add(other);
    }
}

impl fmt::Debug for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [(R, "READABLE"), (W, "WRITABLE"), (P, "PRIORITY"), (E, "ERROR")];
        let mut separator = "";
        for (_, name) in names.iter().filter(|(bit, _)| self.0 & bit != 0) {
            write!(f, "{separator}{name}")?;
            separator = " | ";
        }
        Ok(())
    }
}
