//! A task's class in its state word: its own, and its boost.

#[cfg(feature = "classes")]
use super::state::Action;
use super::state::{BOOST, CLASS, Snapshot};
use crate::{atomic::Word, class::Class};

/// `CLASS` and `BOOST` of each class but normal.
const URGENT: Word = 1;
const BACKGROUND: Word = 2;
/// `CLASS`: normal, whatever the class of its spawner. `BOOST`: normal.
const NORMAL: Word = 3;

const fn code(class: Class) -> Word {
    match class {
        Class::Urgent => URGENT,
        Class::Normal => NORMAL,
        Class::Background => BACKGROUND,
    }
}

impl Snapshot {
    /// A new task whose class does not depend on its spawner's.
    #[cfg(feature = "classes")]
    pub(crate) const fn of_class(self, class: Class) -> Self {
        self.with(CLASS, code(class))
    }

    /// The class that the task was given, or has given itself.
    pub(crate) const fn own_class(self) -> Class {
        match CLASS.get(self.0) {
            URGENT => Class::Urgent,
            BACKGROUND => Class::Background,
            _ => Class::Normal,
        }
    }

    /// The class by which the task is queued: its own, or its boost.
    pub(crate) const fn class(self) -> Class {
        match (BOOST.get(self.0), self.own_class()) {
            (URGENT, _) => Class::Urgent,
            (NORMAL, Class::Background) => Class::Normal,
            (_, own) => own,
        }
    }

    /// Whether it is queued as an urgent one.
    #[inline]
    pub(crate) const fn is_urgent(self) -> bool {
        !self.is_plain() && matches!(self.class(), Class::Urgent)
    }

    /// Whether its spawn gave no class.
    pub(crate) const fn is_classless(self) -> bool {
        CLASS.get(self.0) == 0
    }

    /// Whether the task is normal, and has no boost.
    #[inline(always)]
    pub(crate) const fn is_plain(self) -> bool {
        self.0 & (CLASS.mask() | BOOST.mask()) == 0
    }

    /// The task has this class from now on: it goes by it when it is queued next.
    pub(crate) const fn set_class(self, class: Class) -> (Self, ()) {
        let code = if matches!(class, Class::Normal) { 0 } else { code(class) };
        (self.with(CLASS, code), ())
    }

    /// A task that waits for this one boosts it to a class, or ends the boost.
    ///
    /// | from | to | action |
    /// |---|---|---|
    /// | the same class as a result, or complete | boosted | `None` |
    /// | another class, idle | boosted, scheduled, one reference more: its poll passes the class on | `Schedule` |
    /// | another class, scheduled, running | boosted, one wake more | `None` |
    ///
    /// A task that is queued stays where it is: it goes by this class when it is queued next.
    #[cfg(feature = "classes")]
    pub(crate) const fn with_boost(self, class: Option<Class>) -> (Self, Action) {
        if !self.is_live() {
            return (self, Action::None);
        }
        let next = self.with(
            BOOST,
            match class {
                Some(class) => code(class),
                None => 0,
            },
        );
        if next.class() as u8 == self.class() as u8 {
            return (next, Action::None);
        }
        next.wake()
    }

    /// The class to which the task is boosted.
    #[cfg(feature = "classes")]
    pub(crate) const fn boost(self) -> Option<Class> {
        match BOOST.get(self.0) {
            URGENT => Some(Class::Urgent),
            NORMAL => Some(Class::Normal),
            _ => None,
        }
    }
}
