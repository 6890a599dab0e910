//! Processes of nodes. Each has a socket as its standard input, over which plans come and answers go,
//! a line of JSON each.
//!
//! A process of its own for each, because locks of `fcntl` belong to processes.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::op::{Answer, Plan};
use crate::perform::Performer;
use crate::spoilt::Spoilt;
use crate::sys;

/// The directory of the run, for a process of a node.
const ROOT: &str = "WEIR_NODES_ROOT";
/// That its node misbehaves.
const SPOILT: &str = "WEIR_NODES_SPOILT";
/// Longer than anything may take.
const PATIENCE: Duration = Duration::from_secs(150);

/// One process, as who tells it what to do has it.
pub(crate) struct Actor {
    child: Child,
    stream: BufReader<UnixStream>,
}

impl Actor {
    /// Starts one that works in a directory. `entry` is the test that calls `serve`.
    pub(crate) fn start(entry: &str, root: &PathBuf, spoilt: bool) -> Self {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        let mut command = Command::new(std::env::current_exe().expect("the program's path"));
        command.args(["--ignored", "--exact", "--nocapture", "--test-threads=1", entry]);
        command.env(ROOT, root).stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
        if spoilt {
            command.env(SPOILT, "1");
        }
        let child = command.spawn().expect("a process of a node starts");
        ours.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        Self { child, stream: BufReader::new(ours) }
    }

    pub(crate) fn tell(&mut self, plan: &Plan) {
        let mut line = serde_json::to_vec(plan).expect("JSON");
        line.push(b'\n');
        self.stream.get_mut().write_all(&line).expect("the process of a node listens");
    }

    /// What came of the plan, or why nothing is known of it.
    pub(crate) fn answers(&mut self) -> Result<Vec<Answer>, String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => Err("its process is gone".to_owned()),
            Ok(_) => Ok(serde_json::from_str(&line).expect("answers")),
            Err(why) => Err(format!("no answer in {} s ({why})", PATIENCE.as_secs())),
        }
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // One that waits for a mount that does not answer cannot be waited for.
        for _ in 0..100 {
            match self.child.try_wait() {
                Ok(None) => sys::pause(Duration::from_millis(20)),
                _ => return,
            }
        }
    }
}

/// The other end: does what it is told until there is nobody to tell it. Returns at once in a process
/// that is not one of a node.
pub(crate) fn serve() {
    let Some(root) = std::env::var_os(ROOT) else { return };
    sys::end_with_parent();
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().expect("a descriptor");
    let mut stream = BufReader::new(UnixStream::from(stdin));
    let mut performer = Performer::new(root.into());
    let mut spoilt = std::env::var_os(SPOILT).map(|_| Spoilt::default());
    let mut line = String::new();
    while stream.read_line(&mut line).is_ok_and(|read| read > 0) {
        let plan: Plan = serde_json::from_str(&line).expect("a plan");
        line.clear();
        sys::sleep_until(plan.begin);
        let mut answers = Vec::new();
        for (pause, op) in &plan.ops {
            if !pause.is_zero() {
                sys::pause(*pause);
            }
            let start = sys::now();
            let outcome = match &mut spoilt {
                Some(spoilt) => spoilt.outcome(&mut performer, op),
                None => performer.outcome(op),
            };
            answers.push(Answer { start, end: sys::now(), outcome });
            performer.after(op);
        }
        let mut line = serde_json::to_vec(&answers).expect("JSON");
        line.push(b'\n');
        if stream.get_mut().write_all(&line).is_err() {
            return;
        }
    }
}
