//! Writes every shape of a sample status into a directory, to be looked at:
//! `cargo run -p howdah-metrics --example pages -- DIR`.

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::PathBuf;
use std::{env, fs, io};

use howdah_metrics::{metrics_page, printable, status_page};

fn main() -> io::Result<()> {
    let dir = PathBuf::from(env::args_os().nth(1).unwrap_or_else(|| ".".into()));
    let busy = common::busy();
    let hostile =
        common::hostile(&printable("</title><script>alert(1)</script>\"'&\u{202e}\x1b[2J".as_bytes()));
    let pages = [
        ("busy.html", status_page(b"", &busy)),
        ("pools.html", status_page(b"", &common::several())),
        ("notable.html", status_page(b"notable&refresh=5", &busy)),
        ("fresh.html", status_page(b"", &common::fresh())),
        ("hostile.html", status_page(b"", &hostile)),
        ("auto.txt", status_page(b"auto", &busy)),
        ("status.json", status_page(b"json", &busy)),
        ("lite.json", status_page(b"json=lite", &busy)),
        ("lite.txt", status_page(b"lite", &busy)),
        ("metrics.txt", metrics_page(b"", &busy)),
        ("openmetrics.txt", metrics_page(b"application/openmetrics-text", &busy)),
    ];
    for (name, page) in pages {
        fs::write(dir.join(name), page.body)?;
    }
    Ok(())
}
