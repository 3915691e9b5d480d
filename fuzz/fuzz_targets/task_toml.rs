#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hambo_fuzz::written::run("task_toml", bytes));
