//! Which workers a server has, by its own word.

use std::collections::HashSet;
use std::fs;

use anyhow::bail;
use howdah_metrics::{RequestSeen, Snapshot};

use crate::options::inside::Whose;
use crate::pools;
use crate::scripts::CALLED;

/// Where there is none to look at.
pub(super) const NO_WORKER: &str = "the server has no worker at this moment: howdah status tells why";

/// One worker among those that are meant.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Known {
    /// Path of its application.
    pub(super) pool: String,
    /// Its number in there.
    pub(super) index: u32,
    /// Process id.
    pub(super) pid: u32,
    /// Load of the application that it runs.
    pub(super) generation: u32,
    /// Of a worker that is a thread of a host: its process is the script that it runs, if any.
    pub(super) host: Option<u32>,
    /// What it serves, by the server's word.
    pub(super) request: Option<RequestSeen>,
    /// The server says that it is busy without one.
    pub(super) behind_response: bool,
}

impl Known {
    /// It runs scripts, and has no perl.
    pub(super) fn is_of_host(&self) -> bool {
        self.host.is_some()
    }
}

/// Those that are meant, as far as they have a process.
///
/// # Errors
/// When there is no such application or worker, with those that there are.
pub(super) fn choose(snapshot: &Snapshot, whose: &Whose) -> anyhow::Result<Vec<Known>> {
    let meant = whose.pool.as_deref().map(pools::mounted);
    let wanted = |name: &str| meant.as_deref().is_none_or(|meant| meant == name);
    let pools: Vec<_> = snapshot.pools.iter().filter(|pool| wanted(&pool.name)).collect();
    if let (Some(meant), []) = (&meant, &pools[..]) {
        bail!(pools::none_at(meant, snapshot.pools.iter().map(|pool| pool.name.as_str())));
    }
    let all = pools.into_iter().flat_map(|pool| pool.workers.list.iter().map(move |worker| (pool, worker)));
    let hosts: HashSet<u32> = pools_hosts(snapshot).collect();
    let meant = all.filter(|(_, worker)| whose.worker.is_none_or(|index| index == worker.index));
    let known: Vec<Known> = meant
        .filter(|(_, worker)| worker.pid != 0)
        .map(|(pool, worker)| Known {
            pool: pool.name.clone(),
            index: worker.index,
            pid: worker.pid,
            generation: worker.generation,
            host: pool.zygote.filter(|zygote| hosts.contains(zygote)),
            request: worker.request.clone(),
            behind_response: worker.is_behind_response(),
        })
        .collect();
    if let (Some(index), []) = (whose.worker, &known[..]) {
        bail!("there is no worker {index}: howdah status lists those that there are");
    }
    Ok(known)
}

/// The process ids of those who stand in a zygote's place and are hosts of scripts, as they call themselves.
fn pools_hosts(snapshot: &Snapshot) -> impl Iterator<Item = u32> {
    let calls_itself = CALLED.map(|word| format!("{word}\0")).concat();
    let zygotes = snapshot.pools.iter().filter_map(|pool| pool.zygote);
    zygotes.filter(move |pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.starts_with(calls_itself.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::several;
    use crate::options::{Action, parse};

    fn whose(arguments: &[&str]) -> Whose {
        let line = ["howdah", "where"].iter().chain(arguments).map(Into::into);
        match parse(line).unwrap().action {
            Action::Where(options) => options.whose,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn workers_are_chosen_by_pool_and_number() {
        let snapshot = several();
        let all = choose(&snapshot, &whose(&[])).unwrap();
        assert!(all.len() > 1);
        let (first, pool) = (&all[0], &snapshot.pools[1].name);
        let index = first.index.to_string();
        let one = choose(&snapshot, &whose(&["--pool", &first.pool, "--worker", &index])).unwrap();
        assert_eq!(one, std::slice::from_ref(first));
        assert!(
            choose(&snapshot, &whose(&["--pool", pool])).unwrap().iter().all(|known| known.pool == *pool)
        );
        let bare = pool.trim_matches('/');
        assert!(!choose(&snapshot, &whose(&["--pool", bare])).unwrap().is_empty());
        let refused = choose(&snapshot, &whose(&["--pool", "none"])).unwrap_err().to_string();
        assert!(refused.starts_with("no application is mounted at /none; there is / or "), "{refused}");
        let refused = choose(&snapshot, &whose(&["--worker", "999"])).unwrap_err().to_string();
        assert!(refused.starts_with("there is no worker 999"), "{refused}");
    }
}
