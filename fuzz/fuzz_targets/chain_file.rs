#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::chain_file::run(data));
