//! Notes the time of the build, which the status page shows (SOURCE_DATE_EPOCH makes builds alike), and for `--version` what in it
//! is not as the profile in Cargo.toml has it: such a program's figures are not those of a release.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

/// Settings of the release profile that decide how quick the program is.
const DECISIVE: [&str; 3] =
    ["CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "CARGO_PROFILE_RELEASE_LTO", "CARGO_PROFILE_RELEASE_OPT_LEVEL"];

fn main() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let fixed = env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    println!("cargo::rustc-env=HOWDAH_BUILT={}", fixed.unwrap_or_else(now));
    println!("cargo::rustc-env=HOWDAH_BUILT_WITH={}", not_as_released().join(" "));
    println!("cargo::rerun-if-changed=.");
}

/// The settings that the environment has put in place of the release's, as NAME=VALUE, or that this is no release.
fn not_as_released() -> Vec<String> {
    for name in DECISIVE {
        println!("cargo::rerun-if-env-changed={name}");
    }
    if env::var("PROFILE").is_ok_and(|profile| profile != "release") {
        return vec![String::from("the profile for development")];
    }
    DECISIVE.iter().filter_map(|name| Some(format!("{name}={}", env::var(name).ok()?))).collect()
}
