//! The names of tasks, each with a number that a record has room for.

use core::{fmt, panic::Location};

use filch::atomic::{AtomicU32, Ordering, UnsafeCell};

const EMPTY: u32 = 0;
const TAKEN: u32 = 1;
const READY: u32 = 2;
/// Places that are looked at for a name.
const PROBES: usize = 16;

/// What tasks of one kind are known by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    /// A name, or the type of the future.
    pub(crate) name: &'static str,
    /// Where they are spawned, if that is known.
    pub(crate) place: Option<&'static Location<'static>>,
}

impl Label {
    /// Equal labels may count as different ones: their addresses are compared.
    fn is(&self, other: &Self) -> bool {
        let place = |label: &Self| label.place.map(core::ptr::from_ref);
        core::ptr::eq(self.name, other.name) && place(self) == place(other)
    }

    fn hash(&self) -> usize {
        let place = self.place.map_or(0, |place| core::ptr::from_ref(place).addr());
        let mix = (self.name.as_ptr().addr() ^ place.rotate_left(16)) as u32;
        (mix.wrapping_mul(0x9e37_79b1) >> 8) as usize
    }
}

/// Room for one name.
///
/// INV-NAME: the context that has made `state` `TAKEN` writes the label, and makes it `READY` afterwards, for ever.
pub struct NameSlot {
    state: AtomicU32,
    label: UnsafeCell<Option<Label>>,
}

// SAFETY: INV-NAME: the label is written by one context, and read when it is no longer written. It is `Send` and `Sync`.
unsafe impl Sync for NameSlot {}

impl NameSlot {
    maybe_const! {
        /// An empty one.
        pub fn new() -> Self {
            Self { state: AtomicU32::new(EMPTY), label: UnsafeCell::new(None) }
        }
    }

    pub(crate) fn get(&self) -> Option<Label> {
        // Ordering: Acquire pairs with the Release in `fill`: a context that sees `READY` sees the label.
        let ready = self.state.load(Ordering::Acquire) == READY;
        // SAFETY: INV-NAME: nothing writes it any more.
        ready.then(|| self.label.with(|label| unsafe { *label }))?
    }

    /// Whether the slot was empty, and has the label now.
    fn fill(&self, label: Label) -> bool {
        // Ordering: Relaxed: nothing was written here before.
        let (set, load) = (Ordering::Relaxed, Ordering::Relaxed);
        if self.state.compare_exchange(EMPTY, TAKEN, set, load).is_err() {
            return false;
        }
        // SAFETY: INV-NAME: this context has taken it.
        self.label.with_mut(|place| unsafe { *place = Some(label) });
        // Ordering: Release pairs with the Acquire in `get`.
        self.state.store(READY, Ordering::Release);
        true
    }
}

impl fmt::Debug for NameSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NameSlot").field(&self.get()).finish()
    }
}

impl Default for NameSlot {
    fn default() -> Self {
        Self::new()
    }
}

/// The number of a label, from 1 on; 0 if there is no room near its place. It waits for no other context: of two that bring the same
/// label at once, each may get a number of its own.
pub(crate) fn number(slots: &[NameSlot], label: Label) -> u16 {
    // The largest number is below that which no record has.
    let slots = &slots[..slots.len().min(usize::from(u16::MAX) - 1)];
    let first = label.hash();
    let mut places = (0..PROBES.min(slots.len())).map(|i| (first + i) % slots.len());
    let found = places.find(|place| {
        let slot = &slots[*place];
        slot.get().is_some_and(|there| there.is(&label)) || slot.fill(label)
    });
    found.map_or(0, |place| place as u16 + 1)
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_one_number() {
        let slots = [const { NameSlot::new() }; 8];
        let place = Some(Location::caller());
        let first = Label { name: "first", place };
        let numbers = [
            number(&slots, first),
            number(&slots, Label { name: "second", place }),
            number(&slots, Label { name: "first", place: None }),
        ];
        assert!(numbers.iter().all(|n| (1..=8).contains(n)));
        assert!(numbers[0] != numbers[1] && numbers[1] != numbers[2] && numbers[0] != numbers[2]);
        assert_eq!(number(&slots, first), numbers[0]);
        assert_eq!(slots[usize::from(numbers[1]) - 1].get().unwrap().name, "second");
    }

    #[test]
    fn without_room_there_is_no_number() {
        let slots = [const { NameSlot::new() }; 2];
        let names = ["a", "b", "c"].map(|name| number(&slots, Label { name, place: None }));
        assert!(names[0] > 0 && names[1] > 0 && names[2] == 0);
        assert_eq!(number(&[], Label { name: "a", place: None }), 0);
    }
}
