//! The new process's side of an upgrade: it was started by the process that it is to replace (`upgrade`), which hands
//! over its sockets. It loads the application and starts its workers first; then it says so, waits to be told to go
//! ahead, and serves. When it fails before, the old process goes on. When that is killed before, this one does not wait for its word:
//! it has the sockets, and the server is not to end with it.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, bail};
use howdah_sys::activation::UPGRADE;
use howdah_sys::orphan::behind_keeper;
use howdah_sys::process::{Pid, Process, adopt_fd};
use rustix::net::sockopt::socket_peercred;
use serde::{Deserialize, Serialize};

use crate::tls;

/// Time for the old process to answer; it has nothing else to do then.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time for an old process whose end of the channel is closed to be gone.
const TO_BE_GONE: Duration = Duration::from_secs(1);

/// What stands in `HOWDAH_UPGRADE`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HandedOver {
    /// The old process.
    pub(crate) parent: u32,
    /// Where to talk to it.
    pub(crate) channel: RawFd,
    /// Listening sockets.
    pub(crate) listeners: Vec<OfOneName>,
    /// Control socket.
    pub(crate) control: Option<RawFd>,
    /// The files of Unix sockets are to be removed in the end.
    pub(crate) ours: bool,
    /// Memory with the keys of TLS tickets.
    #[serde(default)]
    pub(crate) tickets: Option<RawFd>,
    /// The new process is to be no child of the old one.
    #[serde(default)]
    pub(crate) orphan: bool,
}

/// The sockets of one name. A single one is a number, as it was before there were several, so that programs of before that can be
/// replaced, and can be gone back to.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum OfOneName {
    One(RawFd),
    Several(Vec<RawFd>),
}

impl From<Vec<RawFd>> for OfOneName {
    fn from(numbers: Vec<RawFd>) -> Self {
        match numbers[..] {
            [number] => Self::One(number),
            _ => Self::Several(numbers),
        }
    }
}

impl From<OfOneName> for Vec<RawFd> {
    fn from(sockets: OfOneName) -> Self {
        match sockets {
            OfOneName::One(number) => vec![number],
            OfOneName::Several(numbers) => numbers,
        }
    }
}

/// What the new process says to the old one, a line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Progress {
    /// This process is the new one, the child of the one that was started.
    Forked(u32),
    /// Everything is there to serve.
    Ready,
    /// It will not work, and why.
    Failed(String),
    /// Connections are accepted.
    Serving,
}

/// What the old process says when the new one is nobody's child.
pub(crate) const ALONE: &str = "alone\n";

/// What the old process says when the new one may go ahead.
pub(crate) const GO: &str = "go\n";

/// What the old process says last when it has changed its mind, or ends by itself. One that is killed says nothing.
pub(crate) const NO: &str = "no\n";

/// What the process that is to replace another has of that: its sockets, and the way to talk to it.
#[derive(Debug)]
pub(crate) struct Handover {
    /// The old process.
    parent: Process,
    channel: BufReader<UnixStream>,
    /// Listening sockets, to be taken; those of one name together.
    pub(crate) listeners: Vec<Vec<OwnedFd>>,
    /// Control socket, to be taken.
    pub(crate) control: Option<OwnedFd>,
    /// As in [`HandedOver`].
    pub(crate) ours: bool,
    /// Keys of TLS tickets.
    pub(crate) tickets: Vec<u8>,
    /// As in [`HandedOver`].
    orphan: bool,
    /// The old process is gone before its time.
    alone: bool,
}

impl Handover {
    /// None when this process was started like any other.
    ///
    /// # Errors
    /// When what was promised is not there.
    pub(crate) fn from_environment() -> anyhow::Result<Option<Self>> {
        let Some(text) = std::env::var_os(UPGRADE) else { return Ok(None) };
        let handed: HandedOver = serde_json::from_str(&text.to_string_lossy())
            .with_context(|| format!("cannot read {UPGRADE}, which is for Howdah's own use: unset it"))?;
        let take = |number| adopt_fd(number).with_context(|| format!("cannot take over descriptor {number}"));
        // Another program may have the variable by chance, and its own descriptor of that number.
        let maker = |channel: &OwnedFd| Some(socket_peercred(channel).ok()?.pid);
        let (channel, parent) = take(handed.channel)
            .ok()
            .and_then(|channel| maker(&channel).map(|parent| (channel, parent)))
            .filter(|&(_, parent)| number(parent) == handed.parent)
            .with_context(|| {
                format!(
                    "{UPGRADE} was set by process {}, which did not start this one: unset it",
                    handed.parent
                )
            })?;
        let channel = UnixStream::from(channel);
        channel.set_read_timeout(Some(PATIENCE))?;
        Ok(Some(Self {
            parent: Process::open(parent),
            channel: BufReader::new(channel),
            listeners: handed
                .listeners
                .into_iter()
                .map(|group| Vec::from(group).into_iter().map(take).collect())
                .collect::<anyhow::Result<_>>()?,
            control: handed.control.map(take).transpose()?,
            ours: handed.ours,
            tickets: handed.tickets.map(take).transpose()?.map(tls::handed).unwrap_or_default(),
            orphan: handed.orphan,
            alone: false,
        }))
    }

    /// Goes on in another process, which is no child of the old one, if that can see to it. Call it before the first thread.
    ///
    /// # Errors
    /// When there may be no other process, or the old one is gone.
    pub(crate) fn part(&mut self) -> anyhow::Result<()> {
        if !self.orphan {
            return Ok(());
        }
        let _keeper = behind_keeper().context("cannot fork")?;
        let gone = "the process that was to be replaced has changed its mind";
        let heard = self.ask(&Progress::Forked(std::process::id()));
        // A keeper that is left ends by itself.
        if heard.as_deref().is_ok_and(|word| word == ALONE) || self.is_left_alone(&heard) {
            return Ok(());
        }
        heard.context(gone)?;
        bail!("{gone}");
    }

    /// Waits until the old process makes way, unless it has been killed.
    ///
    /// # Errors
    /// When it has changed its mind.
    pub(crate) fn take_over(&mut self) -> anyhow::Result<()> {
        let gone = "the process that was to be replaced did not make way";
        let heard = self.ask(&Progress::Ready);
        if heard.as_deref().is_ok_and(|word| word == GO) {
            return Ok(());
        }
        if !self.is_left_alone(&heard) {
            heard.context(gone)?;
            bail!("{gone}");
        }
        let parent = number(self.parent.pid());
        tracing::warn!(
            "process {parent}, which was to be replaced, is gone before it could make way: going on without it"
        );
        Ok(())
    }

    /// The old process, which is given here, may leave.
    ///
    /// # Errors
    /// When it has lost patience, and goes on.
    pub(crate) fn serving(mut self) -> anyhow::Result<Process> {
        if self.alone {
            return Ok(self.parent);
        }
        if let Err(error) = self.say(&Progress::Serving) {
            if !self.parent.has_ended() {
                return Err(error).context("the process that was to be replaced goes on");
            }
            tracing::warn!("the process that was replaced is gone: {error}");
        }
        Ok(self.parent)
    }

    /// Tells the old process why it has to go on.
    pub(crate) fn failed(mut self, error: &anyhow::Error) {
        let _ = self.say(&Progress::Failed(format!("{error:#}")));
    }

    /// Tells the old process how far this one is: its answer, which is empty when that has ended without a word.
    fn ask(&mut self, progress: &Progress) -> std::io::Result<String> {
        // If it is gone, what it has said last is there to be heard yet.
        let _ = self.say(progress);
        self.hear()
    }

    /// Whether the old process has been killed, of which this was heard last.
    fn is_left_alone(&mut self, heard: &std::io::Result<String>) -> bool {
        let nothing = heard.as_ref().map_or(true, String::is_empty);
        self.alone = nothing && self.parent.ends_within(TO_BE_GONE);
        self.alone
    }

    fn hear(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        self.channel.read_line(&mut line)?;
        Ok(line)
    }

    fn say(&mut self, progress: &Progress) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(progress)?;
        line.push(b'\n');
        self.channel.get_mut().write_all(&line)
    }
}

fn number(pid: Pid) -> u32 {
    pid.as_raw_pid().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_sockets_are_handed_over_as_they_always_were() {
        let listeners = "[3,[4,5],6]";
        let groups: Vec<OfOneName> = serde_json::from_str(listeners).unwrap();
        let numbers: Vec<Vec<RawFd>> = groups.into_iter().map(Vec::from).collect();
        assert_eq!(numbers, [vec![3], vec![4, 5], vec![6]]);
        let groups: Vec<OfOneName> = numbers.into_iter().map(OfOneName::from).collect();
        assert_eq!(serde_json::to_string(&groups).unwrap(), listeners);
    }
}
