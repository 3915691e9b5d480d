#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hambo_fuzz::readers::run("state_dict", bytes));
