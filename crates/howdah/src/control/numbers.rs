//! A server in a container tells the numbers that its processes have in there. Who looks into these from the machine outside needs
//! those that they have here, which the kernel has in /proc.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use howdah_metrics::Snapshot;

/// For each process of a container the number that it has here, by the one that it has in there.
#[derive(Debug)]
pub(super) struct Numbers(HashMap<u32, u32>);

impl Numbers {
    /// Those of the container in which a process is, given by its number here; none where it is in no other than we are, or
    /// we may not know.
    pub(super) fn around(process: u32) -> Option<Self> {
        let theirs = namespace(process)?;
        if theirs == namespace(std::process::id())? {
            return None;
        }
        let all = fs::read_dir("/proc").ok()?;
        let all = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let of_it = all.filter(|&process| namespace(process).as_ref() == Some(&theirs));
        let pair = |process| {
            let status = fs::read(format!("/proc/{process}/status")).ok()?;
            Some((innermost(&String::from_utf8_lossy(&status))?, process))
        };
        Some(Self(of_it.filter_map(pair).collect()))
    }

    /// Puts the numbers here in the place of those in there. A process that is not seen here has none.
    pub(super) fn translate(&self, snapshot: &mut Snapshot) {
        let here = |process: u32| self.0.get(&process).copied();
        snapshot.server.pid = here(snapshot.server.pid).unwrap_or_default();
        for pool in &mut snapshot.pools {
            pool.zygote = pool.zygote.and_then(here);
            for worker in &mut pool.workers.list {
                worker.pid = here(worker.pid).unwrap_or_default();
            }
        }
    }
}

/// The namespace of process ids.
fn namespace(process: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/pid")).ok()
}

/// The last number of the line that has one for each namespace, from ours inwards.
fn innermost(status: &str) -> Option<u32> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::several;

    #[test]
    fn the_number_in_there_is_the_last_one() {
        for (status, number) in [
            ("Name:\tperl\nPid:\t4711\nNSpid:\t4711\t33\nThreads:\t1\n", Some(33)),
            ("NSpid:\t4711\n", Some(4711)),
            ("NSpid:\n", None),
            ("Pid:\t4711\n", None),
        ] {
            assert_eq!(innermost(status), number, "{status:?}");
        }
    }

    #[test]
    fn a_process_that_is_in_no_container_has_one_number() {
        assert!(Numbers::around(std::process::id()).is_none());
        assert!(Numbers::around(u32::MAX).is_none(), "nor has one that is not there");
    }

    #[test]
    fn processes_that_are_not_seen_have_none() {
        let mut snapshot = several();
        let (server, worker) = (snapshot.server.pid, snapshot.pools[0].workers.list[0].pid);
        Numbers(HashMap::from([(server, 70), (worker, 71)])).translate(&mut snapshot);
        assert_eq!((snapshot.server.pid, snapshot.pools[0].workers.list[0].pid), (70, 71));
        assert!(snapshot.pools[0].workers.list[1..].iter().all(|worker| worker.pid == 0));
        assert!(snapshot.pools.iter().all(|pool| pool.zygote.is_none_or(|pid| pid == 70 || pid == 71)));
    }
}
