#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| howdah_fuzz::accesslog::accesslog(data));
