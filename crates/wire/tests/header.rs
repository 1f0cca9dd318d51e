//! `xs/wire.h` is what cbindgen makes of this crate today. `HOWDAH_WRITE_HEADER=1` (`make header`) writes it anew.

use std::path::Path;

#[test]
fn the_committed_header_is_the_generated_one() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config =
        cbindgen::Config::from_file(crate_dir.join("cbindgen.toml")).expect("cbindgen.toml is readable");
    let bindings = cbindgen::Builder::new()
        .with_crate(crate_dir)
        .with_config(config)
        .generate()
        .expect("cbindgen understands the crate");
    let mut generated = Vec::new();
    bindings.write(&mut generated);
    let header = crate_dir.join("../../xs/wire.h");
    if std::env::var_os("HOWDAH_WRITE_HEADER").is_some() {
        std::fs::write(&header, &generated).expect("xs/wire.h is writable");
    }
    let committed = std::fs::read(&header).unwrap_or_default();
    assert!(committed == generated, "xs/wire.h is stale: run `make header` and commit it");
}
