//! Scheduling classes: which task goes first.

/// How urgent a task is.
///
/// | class | for | when it is polled |
/// |---|---|---|
/// | `Urgent` | control loops, accepting, small requests | before all else: a worker begins no other poll while an urgent task waits that it may run |
/// | `Normal` | the rest; the default | in turn |
/// | `Background` | bulk work, computation without a deadline | when there is nothing else, and for a share of the time when there always is ([`Config::background_share`](crate::Config::background_share)) |
///
/// No class interrupts a poll: an urgent task waits for the shortest poll under way, at most. While it waits, the budgets of other
/// classes are empty, so that a task that spends its budget gives way at its next point.
///
/// Where 64-bit atomics are not native a task has 16,383 references at most with this feature, and 65,535 without.
///
/// Needs feature `classes`, and an executor with the part [`Classes`](crate::parts::Classes).
///
/// ```
/// # #[cfg(feature = "classes")]
/// # {
/// use filch::Class;
/// assert!(Class::Urgent.is_before(Class::Normal) && !Class::Background.is_before(Class::Normal));
/// assert_eq!(Class::default(), Class::Normal);
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Class {
    /// First.
    Urgent,
    /// In turn.
    #[default]
    Normal,
    /// Last.
    Background,
}

impl Class {
    /// All of them, the first one first.
    pub(crate) const ALL: [Self; 3] = [Self::Urgent, Self::Normal, Self::Background];

    /// Whether this one goes before `other`.
    pub const fn is_before(self, other: Self) -> bool {
        (self as u8) < other as u8
    }
}
