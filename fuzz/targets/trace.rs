#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| filch_fuzz::run("trace", data));
