//! embassy's ticks, and nanoseconds.

use embassy_time_driver::TICK_HZ;

const SECOND: u64 = 1_000_000_000;

const _: () = assert!(TICK_HZ <= SECOND, "a tick is a nanosecond at least, as on filch's clocks");

/// A deadline that never comes, in both units.
pub(crate) const NEVER: u64 = u64::MAX;

/// The ticks that have begun and ended after so many nanoseconds.
pub(crate) const fn from_nanos(nanos: u64) -> u64 {
    if SECOND % TICK_HZ == 0 {
        return nanos / (SECOND / TICK_HZ);
    }
    // Neither product exceeds 10^18.
    nanos / SECOND * TICK_HZ + nanos % SECOND * TICK_HZ / SECOND
}

/// The first nanosecond at which so many ticks have ended: rounded up, so that nothing is early.
pub(crate) const fn to_nanos(ticks: u64) -> u64 {
    // Below 10^18.
    let rest = (ticks % TICK_HZ * SECOND).div_ceil(TICK_HZ);
    (ticks / TICK_HZ).saturating_mul(SECOND).saturating_add(rest)
}

/// Ticks in units of half a millisecond to a millisecond, or of a tick if that is longer.
pub(crate) const fn coarse(ticks: u64) -> u64 {
    const SHIFT: u32 = if TICK_HZ < 1_000 { 0 } else { (TICK_HZ / 1_000).ilog2() };
    ticks >> SHIFT
}

/// The longest time between two looks at the table, in ticks: 2^29 coarse units at most, which is at least three days.
pub(crate) const LONGEST: u64 = {
    const UNIT: u64 = if TICK_HZ < 1_000 { 1 } else { 1 << (TICK_HZ / 1_000).ilog2() };
    UNIT << 29
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_in_nanoseconds_is_the_first_at_which_the_clock_shows_its_tick() {
        let ticks = [0, 1, 2, 999, 1_000, TICK_HZ - 1, TICK_HZ, TICK_HZ + 1, 86_400 * TICK_HZ + 7];
        for at in ticks {
            let nanos = to_nanos(at);
            assert_eq!(from_nanos(nanos), at);
            assert!(at == 0 || from_nanos(nanos - 1) < at, "{at} ticks");
        }
    }

    #[test]
    fn far_deadlines_stay_far() {
        assert_eq!(to_nanos(NEVER), NEVER);
        assert_eq!(to_nanos(NEVER / 2), NEVER);
        assert_eq!(from_nanos(NEVER) / TICK_HZ, NEVER / SECOND);
    }

    #[test]
    fn the_longest_sleep_is_within_half_of_the_coarse_range() {
        assert_eq!(coarse(LONGEST), 1 << 29);
        const { assert!(LONGEST / TICK_HZ > 3 * 86_400) };
    }
}
