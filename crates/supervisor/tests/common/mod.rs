//! A supervisor with fake zygotes, and a front that recovers dead workers' slots when told to.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, missing_debug_implementations, reason = "a test's panic is its report")]

use std::collections::{BTreeMap, HashSet};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use howdah_supervisor::*;
use howdah_sys::launcher::Job;
use howdah_wire::{Roster, Segment, Shape, WorkerCell, WorkerPhase};
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

/// What the front was told.
#[derive(Debug, Default)]
pub struct Told {
    pub up: Vec<u16>,
    pub gone: Vec<(u16, ExitKind)>,
    /// While set, recoveries are kept instead of dropped.
    pub hold: bool,
    pub held: Vec<Recovery>,
    pub replaced: usize,
    pub present: BTreeMap<u16, Vec<OwnedFd>>,
}

/// A supervisor under test.
pub struct Bench {
    pub handle: Handle,
    pub told: Arc<Mutex<Told>>,
    pub segment: Segment,
    pub ended: JoinHandle<Ended>,
    directory: TempDir,
}

/// The application's file, the segment and its description for fake workers.
pub struct Stage {
    pub directory: TempDir,
    pub shared: Shared,
    pub spec: ZygoteSpec,
}

pub fn config(workers: usize) -> Config {
    Config { workers, graceful_timeout: Duration::from_secs(10), ..Config::default() }
}

pub fn stage(app: &str) -> Stage {
    stage_in(&Family::new().unwrap(), app)
}

/// Beside others of that family.
pub fn stage_in(family: &Family, app: &str) -> Stage {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app");
    std::fs::write(&path, app).unwrap();
    let (memfd, segment) = howdah_sys::create_segment(Shape { fronts: 2, workers: 64, slots: 8 }).unwrap();
    let eventfds = vec![howdah_sys::eventfd().unwrap(), howdah_sys::eventfd().unwrap()];
    let name = format!(
        "/proc/{}/fd/{},{},{}",
        std::process::id(),
        memfd.as_raw_fd(),
        segment.shape().offsets().workers_at,
        size_of::<WorkerCell>()
    );
    let spec = ZygoteSpec { app: Some(path.display().to_string()), name, ..ZygoteSpec::default() };
    Stage {
        directory,
        shared: Shared {
            segment,
            memfd,
            eventfds,
            roster: Roster::default(),
            titles: true,
            errors: None,
            family: family.clone(),
        },
        spec,
    }
}

pub fn fake_library() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake")
}

/// A zygote that plays what the stage says, run by this perl.
pub fn start(stage: &Stage, perl: &str) -> Source {
    let recipe = recipe(perl.as_ref(), ["-I".into(), fake_library().into()], &stage.spec);
    Source::Start { perl: perl.into(), job: Job::here(recipe.clone()), guest: Job::here(recipe) }
}

impl Bench {
    pub async fn start(app: &str, config: Config) -> Self {
        Self::try_start(app, config).await.unwrap()
    }

    pub async fn try_start(app: &str, config: Config) -> Result<Self, StartError> {
        let stage = stage(app);
        let source = start(&stage, "perl");
        Self::with_source(stage, source, config).await
    }

    pub async fn with_source(stage: Stage, source: Source, config: Config) -> Result<Self, StartError> {
        let (events, news) = unbounded_channel();
        let told = Arc::new(Mutex::new(Told::default()));
        tokio::spawn(bridge(news, Arc::clone(&told)));
        let segment = stage.shared.segment;
        let (supervisor, handle) = Supervisor::start(config, source, stage.shared, events).await?;
        let ended = tokio::spawn(supervisor.run());
        Ok(Self { handle, told, segment, ended, directory: stage.directory })
    }

    /// Changes the application.
    pub fn edit(&self, app: &str) {
        std::fs::write(self.directory.path().join("app"), app).unwrap();
    }

    pub async fn pids(&self) -> HashSet<Pid> {
        self.handle.snapshot().await.workers.iter().filter_map(|worker| worker.pid).collect()
    }

    /// The front recovers what it kept back, and all that follows.
    pub fn recover(&self) {
        let mut told = self.told.lock().unwrap();
        told.hold = false;
        told.held.clear();
    }

    /// Workers that could serve now.
    pub fn able(&self) -> usize {
        let cells = self.segment.workers().iter();
        cells
            .filter(|cell| cell.phase.load(std::sync::atomic::Ordering::SeqCst) == WorkerPhase::Idle as u32)
            .count()
    }

    /// Waits until the snapshot is as wanted.
    pub async fn until(&self, what: &str, wanted: impl Fn(&Snapshot) -> bool) -> Snapshot {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let snapshot = self.handle.snapshot().await;
            if wanted(&snapshot) {
                return snapshot;
            }
            assert!(Instant::now() < end, "not in time: {what}; {snapshot:#?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub async fn stop(self) {
        self.handle.stop(true).await;
        assert_eq!(self.ended.await.unwrap(), Ended::Stopped);
        let told = self.told.lock().unwrap();
        assert_eq!(told.up.len(), told.gone.len(), "each worker that came went");
    }
}

/// The front's part.
async fn bridge(mut news: UnboundedReceiver<Event>, told: Arc<Mutex<Told>>) {
    while let Some(event) = news.recv().await {
        let mut told = told.lock().unwrap();
        match event {
            Event::WorkerUp { index, channels } => {
                assert_eq!(channels.len(), 2, "a channel to each front thread");
                told.up.push(index);
                assert!(told.present.insert(index, channels).is_none(), "cell {index} is used twice");
            }
            Event::WorkerGone { index, status, done } => {
                told.gone.push((index, status));
                told.present.remove(&index);
                if told.hold {
                    told.held.push(done);
                }
            }
            Event::Replaced { .. } => told.replaced += 1,
        }
    }
}

/// True while a process is there and no zombie.
pub fn lives(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
}

pub fn kill(pid: Pid) {
    signal(pid, Signal::KILL);
}

pub fn signal(pid: Pid, signal: Signal) {
    howdah_sys::process::Process::open(pid).signal(signal).unwrap();
}
