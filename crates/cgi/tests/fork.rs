//! Zygotes of scripts as the host's threads use them: started once, replaced, sent away, never waited for in vain. They
//! load the object that `make build` makes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test's panic is its report")]

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use howdah_cgi::place::{Perl, Script, Version};
use howdah_cgi::spec::Spec;
use howdah_cgi::start::Launch;
use howdah_cgi::start::fork::{Fault, Forks, Limits, Modules, Outcome};

const LIMITS: Limits = Limits {
    zygotes: 4,
    idle: Duration::from_secs(60),
    compile: Duration::from_secs(20),
    look: Duration::from_millis(10),
};

/// A directory of scripts, and zygotes for them.
struct Place {
    dir: tempfile::TempDir,
    forks: Forks,
    log: Arc<Mutex<Vec<String>>>,
}

impl Place {
    fn new(limits: Limits) -> Self {
        let blib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../blib");
        assert!(blib.join("arch/auto/Howdah/CGI/Fork/Fork.so").exists(), "run `make build` first");
        Self::with(limits, vec![blib.join("lib"), blib.join("arch")])
    }

    /// With Howdah's modules in these directories.
    fn with(limits: Limits, inc: Vec<PathBuf>) -> Self {
        Self::with_perl(perl(), limits, inc)
    }

    /// As [`Place::with`], asking this perl for Howdah's modules.
    fn with_perl(perl: PathBuf, limits: Limits, inc: Vec<PathBuf>) -> Self {
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = log.clone();
        let log_line = Arc::new(move |_: &Path, line: &str| lines.lock().unwrap().push(line.to_owned()));
        let modules = Modules::new(&Spec { perl, inc, ..Spec::default() });
        let forks = Forks::new(modules, limits, log_line);
        Self { dir: tempfile::tempdir().unwrap(), forks, log }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Written as an editor does, some time ago.
    fn write(&self, name: &str, text: &str) {
        let new = self.path("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.path(name)).unwrap();
    }

    fn start(&self, name: &str, within: Duration) -> Result<String, Fault> {
        let (output, stdout) = io::pipe().unwrap();
        let launch = launch(&self.path(name), stdout);
        let until = Instant::now() + within;
        match self.forks.start(launch, &|| Instant::now() > until)? {
            Outcome::Execute(_) => Ok("execute".into()),
            Outcome::Forked(running) => {
                let text = io::read_to_string(output).unwrap();
                let _ = rustix::process::waitpid(Some(running.pid), rustix::process::WaitOptions::empty());
                Ok(text)
            }
        }
    }

    fn get(&self, name: &str) -> Result<String, String> {
        self.start(name, Duration::from_secs(20)).map_err(|fault| fault.to_string())
    }

    /// Asks until the answer is the wanted one: a change is looked for no more often than the limits say.
    fn becomes(
        &self,
        name: &str,
        wanted: impl Fn(&Result<String, String>) -> bool,
    ) -> Result<String, String> {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let got = self.get(name);
            if wanted(&got) || Instant::now() > until {
                return got;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn perl() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|dir| dir.join("perl")).find(|file| file.exists()).unwrap()
}

fn launch(path: &Path, stdout: io::PipeWriter) -> Launch {
    let found = path.metadata().unwrap();
    let version = Version {
        file: (found.dev(), found.ino()),
        size: found.size(),
        modified: (found.mtime(), u32::try_from(found.mtime_nsec()).unwrap()),
    };
    Launch {
        script: Script {
            filename: path.into(),
            directory: path.parent().unwrap().into(),
            name: b"/script".to_vec(),
            path_info: Vec::new(),
            version,
            perl: Some(Perl { program: perl(), switches: Vec::new() }),
            nph: false,
        },
        arguments: Vec::new(),
        environment: vec![CString::new("QUERY_STRING=q").unwrap()],
        stdin: File::open("/dev/null").unwrap().into(),
        stdout: stdout.into(),
        stderr: io::stderr().as_fd().try_clone_to_owned().unwrap(),
    }
}

/// Prints the zygote's process id, which a variable of BEGIN has kept.
const WHO: &str = "my $zygote; BEGIN { $zygote = $$ } print $zygote;";

#[test]
fn many_who_ask_at_once_share_one_zygote() {
    let place = Place::new(LIMITS);
    place.write("who", &format!("BEGIN {{ select undef, undef, undef, 0.2 }} {WHO}"));
    let ask = || place.get("who").unwrap();
    let answers: Vec<String> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..12).map(|_| scope.spawn(ask)).collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(
        answers.iter().all(|answer| *answer == answers[0] && answer.parse::<u32>().is_ok()),
        "{answers:?}"
    );
}

#[test]
fn howdahs_own_modules_may_be_in_a_directory_that_is_named_from_where_the_server_is() {
    // Tests run in the directory of their crate, scripts in their own.
    let place = Place::with(LIMITS, vec!["../../blib/lib".into(), "../../blib/arch".into()]);
    place.write("who", WHO);
    let (first, second) = (place.get("who"), place.get("who"));
    assert!(first.as_ref().is_ok_and(|answer| answer.parse::<u32>().is_ok()), "{first:?}");
    assert_eq!(first, second);
}

#[test]
fn that_perl_could_not_be_run_once_does_not_count_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("perl");
    let inc = vec!["../../blib/lib".into(), "../../blib/arch".into()];
    let place = Place::with_perl(link.clone(), LIMITS, inc);
    place.write("who", WHO);
    for (program, why) in [("/nonesuch", "cannot run"), ("/bin/false", "fails: exit status: 1")] {
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(program, &link).unwrap();
        assert_eq!(place.get("who"), Ok("execute".into()));
        let told = place.log.lock().unwrap().pop().unwrap();
        assert!(told.contains(why), "{told}");
    }
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(perl(), &link).unwrap();
    let got = place.get("who");
    assert!(got.as_ref().is_ok_and(|answer| answer.parse::<u32>().is_ok()), "{got:?}");
}

#[test]
fn a_changed_script_or_module_is_compiled_anew() {
    let place = Place::new(LIMITS);
    place.write("Part.pm", "package Part; sub text { 'first' } 1;");
    place.write("a", "use lib '.'; use Part; print Part::text();");
    assert_eq!(place.get("a"), Ok("first".into()));
    place.write("Part.pm", "package Part; sub text { 'second' } 1;");
    assert_eq!(place.becomes("a", |got| got != &Ok("first".into())), Ok("second".into()));
    place.write("a", "print 'third'");
    assert_eq!(place.becomes("a", |got| got != &Ok("second".into())), Ok("third".into()));
}

#[test]
fn a_version_that_does_not_compile_says_where_until_it_does() {
    let place = Place::new(LIMITS);
    place.write("a", "print 'good'");
    assert_eq!(place.get("a"), Ok("good".into()));
    place.write("a", "print 'good';\nmy $x = ;\n");
    let told = place.becomes("a", |got| got.is_err()).unwrap_err();
    assert!(told.contains("syntax error at") && told.contains("/a line 2"), "{told}");
    place.write("a", "print 'better'");
    assert_eq!(place.becomes("a", |got| got.is_ok()), Ok("better".into()));
}

#[test]
fn what_cannot_be_forked_is_executed_and_the_log_says_why() {
    let cases = [
        ("socket", "use Socket; BEGIN { socketpair A, B, AF_UNIX, SOCK_STREAM, 0 }", "a connection"),
        ("pipe", "BEGIN { pipe A, B }", "it has pipe:["),
        ("child", "BEGIN { fork || sleep 2 }", "it starts a process"),
        ("twins", "BEGIN { fork && sleep 1 } print 1", "it starts a process"),
        ("alarm", "BEGIN { alarm 30 }", "it sets an alarm"),
        ("whole", "BEGIN { our $x = 1 } sub f { 2 }", "nothing of it is left to run"),
        ("answer", "BEGIN { print \"Status: 503\\n\\n\"; exit }", "it ends while it is compiled"),
    ];
    for (name, text, why) in cases {
        let place = Place::new(LIMITS);
        place.write(name, text);
        assert_eq!(place.get(name), Ok("execute".into()), "{name}");
        let log = place.log.lock().unwrap().join("\n");
        assert!(log.contains(why), "{name}: {log}");
    }
}

#[test]
fn a_request_whose_time_is_over_does_not_wait_for_the_compiler() {
    let place = Place::new(Limits { compile: Duration::from_secs(1), ..LIMITS });
    place.write("stuck", "BEGIN { sleep 1000 }");
    assert!(matches!(place.start("stuck", Duration::from_millis(50)), Err(Fault::Late)));
    let told = place.get("stuck").unwrap_err();
    assert!(
        told.contains("not within 1 s") && told.contains("perl stands at") && told.contains("line 1"),
        "{told}"
    );
}

#[test]
fn a_script_loses_no_time_to_compile_while_the_process_is_stopped() {
    let place = Place::new(Limits { compile: Duration::from_secs(3), ..LIMITS });
    // Each warning is read, and the time looked at.
    place.write(
        "warns",
        &format!("BEGIN {{ for (1 .. 43) {{ warn 'x'; select undef, undef, undef, 0.1 }} }}{WHO}"),
    );
    let stop = format!("sleep 0.3; kill -STOP {0}; sleep 3.5; kill -CONT {0}", std::process::id());
    let mut stopper = Command::new("sh").args(["-c", &stop]).spawn().unwrap();
    let got = place.get("warns");
    stopper.wait().unwrap();
    assert!(got.is_ok(), "{got:?}");
}

#[test]
fn a_zygote_that_was_killed_is_followed_by_another() {
    let place = Place::new(LIMITS);
    place.write("who", WHO);
    let first = place.get("who").unwrap();
    let pid = rustix::process::Pid::from_raw(first.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let second = place.becomes("who", |got| got.is_ok()).unwrap();
    assert_ne!(first, second);
}

#[test]
fn there_are_as_many_zygotes_as_the_limits_say_and_the_idle_leave() {
    let place = Place::new(Limits { idle: Duration::from_millis(300), ..LIMITS });
    for name in ["a", "b", "c", "d", "e", "f"] {
        place.write(name, WHO);
        assert!(place.get(name).is_ok());
        assert!(place.forks.zygotes() <= LIMITS.zygotes);
    }
    let until = Instant::now() + Duration::from_secs(20);
    while place.forks.zygotes() > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(place.forks.zygotes(), 0);
}

#[test]
fn warnings_of_the_compiler_are_logged_once() {
    let place = Place::new(LIMITS);
    place.write("a", "use warnings; my $x; my $x; print 'fine'");
    for _ in 0..3 {
        assert_eq!(place.get("a"), Ok("fine".into()));
    }
    let log = place.log.lock().unwrap().clone();
    assert_eq!(log.len(), 1, "{log:?}");
    assert!(log[0].contains("masks earlier declaration") && log[0].contains("/a line 1"), "{log:?}");
}
