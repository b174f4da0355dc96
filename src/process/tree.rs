//! The processes of one run: the leader's group plus descendants that left it.
//!
//! CLIs run shell commands in sessions of their own, so a signal to the group does not reach them. They are
//! found by parent links and by the run's marker in their environment, and are signalled only while their
//! start time is the one recorded: a process id alone may have been given to somebody else.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::spawn::Leader;

const POLL: Duration = Duration::from_millis(10);
/// Bound on waiting for a killed tree to disappear.
const KILLED: Duration = Duration::from_secs(2);

/// How often a tree that is ended at once is looked at: one that forks faster than it can be ended must not hold
/// up the end of the host.
#[cfg(unix)]
const LOOKS: usize = 20;

/// A process as it was seen: the pair names it for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Member {
    pub pid: i32,
    pub started: u64,
    pub group: i32,
}

/// What is needed to find a run's processes.
// A job object knows its processes by itself; only POSIX trees are looked up.
#[cfg_attr(windows, allow(dead_code))]
#[derive(Debug, Clone)]
pub struct Tree {
    leader: i32,
    run_id: String,
    /// The leader's start time: nothing older belongs to the tree, so most processes need no closer look.
    since: u64,
    /// Who was seen once stays known while it lives: the death of a parent takes the link to children that
    /// cleared their environment, and in the middle of exec or exit a process shows none.
    seen: Arc<Mutex<HashSet<Member>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Terminate,
    Kill,
}

impl Tree {
    pub fn new(pid: u32, run_id: &str) -> Self {
        #[cfg(unix)]
        let since = list::since(pid as i32);
        #[cfg(not(unix))]
        let since = 0;
        Tree { leader: pid as i32, run_id: run_id.to_owned(), since, seen: Arc::default() }
    }

    /// The processes that carry this run's marker, whatever their leader was.
    #[cfg(test)]
    pub fn marked(run_id: &str) -> Self {
        Tree { leader: -1, run_id: run_id.to_owned(), since: 0, seen: Arc::default() }
    }

    /// Polite first, force after `grace`, then whatever is left. Returns once nothing of the tree is alive
    /// (or, after force, two seconds later).
    pub async fn stop(&self, leader: &Leader, grace: Duration) {
        self.signal(leader, Signal::Terminate);
        if self.gone_within(leader, grace).await {
            return;
        }
        let until = Instant::now() + KILLED;
        loop {
            self.signal(leader, Signal::Kill);
            if self.gone_within(leader, POLL * 5).await {
                return;
            }
            if Instant::now() >= until {
                tracing::warn!(leader = self.leader, "processes of a run are still there after being killed");
                return;
            }
        }
    }

    async fn gone_within(&self, leader: &Leader, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut pause = POLL;
        loop {
            if leader.exited().is_some() && !self.alive(leader) {
                return true;
            }
            let now = Instant::now();
            if now >= until {
                return false;
            }
            tokio::time::sleep(pause.min(until - now)).await;
            pause = (pause * 2).min(Duration::from_millis(80));
        }
    }

    #[cfg(windows)]
    pub fn alive(&self, leader: &Leader) -> bool {
        leader.exited().is_none()
    }

    #[cfg(windows)]
    fn signal(&self, leader: &Leader, _: Signal) {
        // Windows knows no polite signal: closing stdin was the polite part.
        leader.kill_job();
    }

    #[cfg(unix)]
    pub fn alive(&self, leader: &Leader) -> bool {
        leader.exited().is_none() || !self.members().is_empty() || (!CAN_LIST && self.group_exists())
    }

    #[cfg(unix)]
    fn signal(&self, leader: &Leader, signal: Signal) {
        // The snapshot comes before the first signal: a dying parent hands its children to init, and their
        // parent link is lost.
        let members = self.members();
        // A reaped leader's id may be somebody else's by now: its group is signalled only while a member of
        // it is known (or, where processes cannot be listed, while the group exists at all).
        let group = leader.exited().is_none()
            || members.iter().any(|m| m.group == self.leader)
            || (!CAN_LIST && self.group_exists());
        if group {
            send(Target::Group(self.leader), signal);
        }
        for m in members.iter().filter(|m| m.group != self.leader) {
            if list::started(m.pid) == Some(m.started) {
                send(Target::Process(m.pid), signal);
            }
        }
    }

    /// Force without waiting, for the end of the host process.
    pub fn kill_now(&self, reaped: bool) {
        #[cfg(unix)]
        {
            // Once more while a look finds somebody who was not there before: a process that is being killed may
            // have started another one in the meantime.
            let mut seen = HashSet::new();
            let mut members = self.members();
            let mut group = !reaped;
            for _ in 0..LOOKS {
                group |= members.iter().any(|m| m.group == self.leader);
                if std::mem::take(&mut group) {
                    send(Target::Group(self.leader), Signal::Kill);
                }
                for m in members.iter().filter(|m| m.group != self.leader) {
                    if list::started(m.pid) == Some(m.started) {
                        send(Target::Process(m.pid), Signal::Kill);
                    }
                }
                seen.extend(members);
                members = self.members();
                if members.iter().all(|m| seen.contains(m)) {
                    break;
                }
            }
        }
        // On Windows the job object dies with the host's last handle to it.
        #[cfg(windows)]
        let _ = reaped;
    }

    #[cfg(unix)]
    fn group_exists(&self) -> bool {
        use rustix::process::{Pid, test_kill_process_group};
        Pid::from_raw(self.leader).is_some_and(|p| test_kill_process_group(p).is_ok())
    }

    /// Live processes of this run (zombies are dead).
    #[cfg(unix)]
    pub fn members(&self) -> Vec<Member> {
        let mut seen = self.seen.lock().unwrap_or_else(|e| e.into_inner());
        seen.extend(list::members(self.leader, &self.run_id, self.since));
        seen.retain(|m| list::started(m.pid) == Some(m.started));
        seen.iter().copied().collect()
    }
}

#[cfg(unix)]
enum Target {
    Group(i32),
    Process(i32),
}

#[cfg(unix)]
fn send(target: Target, signal: Signal) {
    use rustix::process::{Pid, Signal as Sig, kill_process, kill_process_group};
    let signal = match signal {
        Signal::Terminate => Sig::TERM,
        Signal::Kill => Sig::KILL,
    };
    let sent = match target {
        Target::Group(id) => Pid::from_raw(id).map(|p| kill_process_group(p, signal)),
        Target::Process(id) => Pid::from_raw(id).map(|p| kill_process(p, signal)),
    };
    // ESRCH: it ended in the meantime, which is what we want.
    if let Some(Err(e)) = sent.filter(|r| *r != Err(rustix::io::Errno::SRCH)) {
        tracing::debug!(error = %e, "could not signal a process of a run");
    }
}

#[cfg(unix)]
const CAN_LIST: bool = cfg!(target_os = "linux");

#[cfg(target_os = "linux")]
mod list {
    //! /proc, read once per question.

    use std::collections::{HashMap, HashSet};

    use super::Member;

    struct Row {
        parent: i32,
        group: i32,
        started: u64,
        zombie: bool,
    }

    fn row(pid: i32) -> Option<Row> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The command name is in parentheses and may hold anything: count fields behind the last one.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        Some(Row {
            zombie: matches!(*fields.first()?, "Z" | "X"),
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    pub fn started(pid: i32) -> Option<u64> {
        row(pid).filter(|r| !r.zombie).map(|r| r.started)
    }

    /// 0 = it is gone already, so anything may be younger.
    pub fn since(pid: i32) -> u64 {
        row(pid).map_or(0, |r| r.started)
    }

    pub fn members(leader: i32, run_id: &str, since: u64) -> Vec<Member> {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        let table: HashMap<i32, Row> = entries
            .flatten()
            .filter_map(|e| e.file_name().to_str()?.parse().ok())
            .filter_map(|pid: i32| Some((pid, row(pid)?)))
            .collect();
        let marker = format!("{}={run_id}", crate::process::env::RUN_ID).into_bytes();
        select(&table, leader, since, std::process::id() as i32, |pid| carries(pid, &marker))
    }

    /// `since`: when the leader started.
    fn select(
        table: &HashMap<i32, Row>,
        leader: i32,
        since: u64,
        own: i32,
        carries: impl Fn(i32) -> bool,
    ) -> Vec<Member> {
        // A process id that belongs to somebody else by now names nobody of this tree, neither as a process
        // nor as a group: the system gives no id away while a group of that name has a member.
        let ours = table.get(&leader).is_none_or(|row| row.started == since);
        let by_id = |pid: i32, row: &Row| ours && (pid == leader || row.group == leader);
        let young = |row: &Row| row.started >= since;
        let mut found: HashSet<i32> = table
            .iter()
            .filter(|(pid, row)| **pid != own && young(row) && (by_id(**pid, row) || carries(**pid)))
            .map(|(pid, _)| *pid)
            .collect();
        // Descendants of members, however deep, also those that cleared their environment.
        loop {
            let more: Vec<i32> = table
                .iter()
                .filter(|(pid, row)| !found.contains(pid) && young(row) && found.contains(&row.parent))
                .map(|(pid, _)| *pid)
                .collect();
            if more.is_empty() {
                break;
            }
            found.extend(more);
        }
        found
            .into_iter()
            .filter_map(|pid| {
                let row = &table[&pid];
                (!row.zombie).then_some(Member { pid, started: row.started, group: row.group })
            })
            .collect()
    }

    fn carries(pid: i32, marker: &[u8]) -> bool {
        // Unreadable (another user's) or already gone: not ours.
        std::fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|env| env.split(|b| *b == 0).any(|entry| entry == marker))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// pid, parent, group, start time.
        fn picked(rows: &[(i32, i32, i32, u64)], marked: &[i32]) -> Vec<i32> {
            let table = rows
                .iter()
                .map(|(pid, parent, group, started)| {
                    (*pid, Row { parent: *parent, group: *group, started: *started, zombie: false })
                })
                .collect();
            let mut pids: Vec<i32> =
                select(&table, 50, 100, 7, |pid| marked.contains(&pid)).iter().map(|m| m.pid).collect();
            pids.sort_unstable();
            pids
        }

        #[test]
        fn the_group_the_marked_and_all_their_descendants_belong_to_the_tree() {
            let rows = [
                (7, 1, 7, 10),
                (50, 7, 50, 100),
                (51, 50, 50, 101),
                (52, 51, 52, 102),
                (53, 52, 53, 103),
                (60, 1, 60, 104),
                (61, 1, 61, 105),
                (62, 7, 62, 106),
            ];
            assert_eq!(picked(&rows, &[60]), [50, 51, 52, 53, 60]);
            assert_eq!(picked(&rows[2..], &[]), [51, 52, 53], "the leader is reaped, its group lives on");
        }

        #[test]
        fn a_process_that_got_the_leaders_id_later_does_not_belong_to_it() {
            let rows = [(7, 1, 7, 10), (50, 1, 50, 200), (51, 50, 50, 201), (60, 1, 60, 150)];
            assert_eq!(picked(&rows, &[60]), [60]);
        }

        #[test]
        fn what_is_older_than_the_run_does_not_belong_to_it() {
            let rows = [(50, 7, 50, 100), (40, 1, 40, 99), (41, 50, 41, 99)];
            assert_eq!(picked(&rows, &[40]), [50]);
        }
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
mod list {
    //! Listing processes needs system calls of its own here; until they are built the process group is all
    //! that is known.

    use super::Member;

    pub fn started(_: i32) -> Option<u64> {
        None
    }

    pub fn since(_: i32) -> u64 {
        0
    }

    pub fn members(_: i32, _: &str, _: u64) -> Vec<Member> {
        Vec::new()
    }
}
