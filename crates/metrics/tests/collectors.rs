//! Collectors that know Apache must know us: the keys of a real mod_status are the reference, munin's plugins the
//! readers. Each is skipped where it is not installed (`apt-get install apache2-bin munin-plugins-core libwww-perl`).

#![allow(clippy::unwrap_used, reason = "a test's panic is its report")]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use howdah_metrics::status_page;

const HTTPD: &str = "/usr/sbin/apache2";
const MODULES: &str = "/usr/lib/apache2/modules";
const MUNIN: &str = "/usr/share/munin/plugins";

fn auto() -> String {
    status_page(b"auto", &common::busy()).body
}

/// Serves the page over HTTP, as often as it is asked for.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let body = auto();
            let head = format!(
                "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    port
}

#[test]
fn munin_reads_the_page() {
    if !Path::new(MUNIN).join("apache_processes").exists() {
        eprintln!("skipped: munin's plugins are not installed");
        return;
    }
    let port = serve();
    let cases = [
        (
            "apache_processes",
            vec![
                format!("busy{port}.value 5"),
                format!("idle{port}.value 4"),
                format!("free{port}.value 12"),
            ],
        ),
        ("apache_accesses", vec![format!("accesses{port}.value 96088201")]),
        ("apache_volume", vec![format!("volume{port}.value 912345678848")]),
    ];
    for (plugin, expected) in cases {
        let mut command = Command::new("perl");
        command.arg(Path::new(MUNIN).join(plugin)).env("ports", port.to_string());
        command.env("url", "http://127.0.0.1:%d/server-status?auto").env("PERL5LIB", "/usr/share/perl5");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        for line in expected {
            assert!(said.contains(&line), "{plugin}: {said}{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

struct Httpd(Child);

impl Drop for Httpd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Keys of a `?auto` page, in order; the first line has none.
fn keys(page: &str) -> Vec<&str> {
    page.lines().skip(1).filter_map(|line| line.split_once(':')).map(|pair| pair.0).collect()
}

#[test]
fn every_key_of_a_real_mod_status_is_there_in_its_order() {
    if !Path::new(HTTPD).exists() {
        eprintln!("skipped: Apache httpd is not installed");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    fs::write(dir.path().join("httpd.conf"), configuration(dir.path(), port)).unwrap();
    let mut command = Command::new(HTTPD);
    command.arg("-X").arg("-d").arg(dir.path()).arg("-f").arg(dir.path().join("httpd.conf"));
    let _httpd = Httpd(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    get(port, "/").unwrap();
    let theirs = get(port, "/server-status?auto").unwrap();
    let (ours, theirs) = (auto(), theirs.split_once("\r\n\r\n").unwrap().1.to_owned());
    let wanted = keys(&theirs);
    assert!(wanted.len() > 25, "{theirs}");
    let mine: Vec<_> = keys(&ours).into_iter().filter(|key| wanted.contains(key)).collect();
    assert_eq!(mine, wanted);
}

fn configuration(dir: &Path, port: u16) -> String {
    let modules: String = ["mpm_event", "authz_core", "status"]
        .iter()
        .map(|name| format!("LoadModule {name}_module {MODULES}/mod_{name}.so\n"))
        .collect();
    let dir = dir.display();
    format!(
        "{modules}User nobody\nGroup nogroup\nServerName judge.example\nListen 127.0.0.1:{port}\n\
         DefaultRuntimeDir {dir}\nPidFile {dir}/pid\nErrorLog {dir}/error.log\nDocumentRoot {dir}\nExtendedStatus On\n\
         <Location /server-status>\nSetHandler server-status\n</Location>\n"
    )
}

fn get(port: u16, target: &str) -> Option<String> {
    let start = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => break stream,
            Err(_) if start.elapsed() < Duration::from_secs(10) => thread::sleep(Duration::from_millis(20)),
            Err(_) => return None,
        }
    };
    stream.write_all(format!("GET {target} HTTP/1.0\r\nHost: judge.example\r\n\r\n").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}
