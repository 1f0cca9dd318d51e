//! Notes the time of the build, which the status page shows. SOURCE_DATE_EPOCH makes builds alike.

use std::time::{SystemTime, UNIX_EPOCH};

fn main() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let fixed = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    println!("cargo::rustc-env=HOWDAH_BUILT={}", fixed.unwrap_or_else(now));
}
