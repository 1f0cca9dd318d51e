//! A real Apache httpd of one process, on a free port of loopback, with one log format.

use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Debian's and others' places.
const PROGRAMS: [&str; 3] = ["/usr/sbin/apache2", "/usr/sbin/httpd", "/usr/local/apache2/bin/httpd"];
const MODULES: [&str; 3] =
    ["/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/local/apache2/modules"];

pub(crate) struct Httpd {
    child: Child,
    dir: tempfile::TempDir,
    pub(crate) port: u16,
}

impl Httpd {
    /// Starts it; none when it is not installed.
    pub(crate) fn start(format: &str) -> Option<Self> {
        let program = PROGRAMS.into_iter().find(|path| Path::new(path).exists())?;
        let modules = MODULES.into_iter().find(|path| Path::new(path).exists())?;
        let dir = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        fs::create_dir(dir.path().join("www")).unwrap();
        fs::write(dir.path().join("www/hello.html"), "hello world").unwrap();
        fs::write(dir.path().join("www/empty.txt"), "").unwrap();
        fs::write(dir.path().join("www/café x.txt"), "déjà vu").unwrap();
        open_to_all(dir.path());
        let config = configuration(dir.path(), modules, port, format);
        fs::write(dir.path().join("httpd.conf"), config).unwrap();
        let mut command = Command::new(program);
        command.arg("-X").arg("-d").arg(dir.path()).arg("-f").arg(dir.path().join("httpd.conf"));
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().ok()?;
        let mut httpd = Self { child, dir, port };
        httpd.wait_until_up();
        Some(httpd)
    }

    fn wait_until_up(&mut self) {
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if start.elapsed() > Duration::from_secs(10) || !matches!(self.child.try_wait(), Ok(None)) {
                let _ = self.child.kill();
                let mut said = String::new();
                let _ = self.child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said));
                panic!("httpd does not start: {said}{}", self.read("error.log"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    /// The lines of the log, once there are so many.
    pub(crate) fn lines(&self, count: usize) -> Vec<String> {
        let start = Instant::now();
        loop {
            let lines: Vec<_> = self.read("access.log").lines().map(str::to_owned).collect();
            if lines.len() >= count || start.elapsed() > Duration::from_secs(10) {
                return lines;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Httpd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// When root starts httpd, its children are somebody else.
fn open_to_all(dir: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
}

fn configuration(dir: &Path, modules: &str, port: u16, format: &str) -> String {
    let dir = dir.display();
    let load: String =
        [("mpm_event", "mpm_event"), ("env", "env"), ("headers", "headers"), ("authz_core", "authz_core")]
            .iter()
            .map(|(name, file)| format!("LoadModule {name}_module {modules}/mod_{file}.so\n"))
            .collect();
    let format = format.replace('\\', r"\\").replace('"', r#"\""#);
    format!(
        "{load}
<IfFile \"{modules}/mod_unixd.so\">
LoadModule unixd_module {modules}/mod_unixd.so
</IfFile>
<IfFile \"{modules}/mod_log_config.so\">
LoadModule log_config_module {modules}/mod_log_config.so
LoadModule logio_module {modules}/mod_logio.so
</IfFile>
User nobody
Group nogroup
ServerName judge.example:{port}
Listen 127.0.0.1:{port}
DefaultRuntimeDir {dir}
PidFile {dir}/httpd.pid
ErrorLog {dir}/error.log
DocumentRoot {dir}/www
KeepAlive On
MergeTrailers Off
LogIOTrackTTFB On
SetEnv JUDGE \"a \\\"quoted\\\" value\"
Header always set X-Hostile \"tab\tquote\\\" back\\\\\"
Header set Content-Type \"text/html; charset=utf-8\" \"expr=%{{REQUEST_URI}} =~ /hello/\"
Header add X-Many one
Header add X-Many two
LogFormat \"{format}\" judge
CustomLog {dir}/access.log judge
"
    )
}
