//! The panic handler of a program whose only Rust is this library.

use core::{fmt::Write, panic::PanicInfo, ptr::null_mut};

use filch::atomic::{AtomicPtr, Ordering};
use heapless::String;

use crate::platform::filch_platform;

/// The table of the first executor that has a `panic` function; it is part of the executor, and lives for ever.
static HOOK: AtomicPtr<filch_platform> = AtomicPtr::new(null_mut());

/// Keeps the hook, unless there is one.
pub(crate) fn register(platform: &'static filch_platform) {
    if platform.panic.is_some() {
        let table = core::ptr::from_ref(platform).cast_mut();
        // Ordering: Release pairs with the Acquire in `panic`.
        let _ = HOOK.compare_exchange(null_mut(), table, Ordering::Release, Ordering::Relaxed);
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    // The end of a longer message is cut off; one byte is for the zero.
    let mut message = Message(String::new());
    let _ = write!(message, "{info}");
    let _ = message.0.push('\0');
    // Ordering: Acquire pairs with the Release in `register`.
    // SAFETY: `register` has stored a table that lives for ever.
    let hook = unsafe { HOOK.load(Ordering::Acquire).as_ref() };
    if let Some((table, call)) = hook.and_then(|table| Some((table, table.panic?))) {
        // SAFETY: the C program's promise.
        unsafe { call(table.data, message.0.as_ptr().cast()) };
    }
    loop {
        core::hint::spin_loop();
    }
}

const ROOM: usize = 256;

/// What fits of a message, and a zero.
struct Message(String<ROOM>);

impl Write for Message {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for c in text.chars() {
            if self.0.len() + c.len_utf8() >= ROOM {
                break;
            }
            let _ = self.0.push(c);
        }
        Ok(())
    }
}
