#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| howdah_fuzz::words::words(data));
