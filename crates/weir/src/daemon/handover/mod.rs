//! From one binary to another in the same process: what is handed over, and how it is executed.

mod binary;
mod exec;
mod handed;
mod invocation;
mod on_mount;

pub(crate) use binary::{Answer, Binary, Question, VERSIONS};
pub(crate) use exec::{exec, now_ns};
pub(crate) use handed::{Attempt, Handed, Sockets, State, memory, number};
pub(crate) use invocation::Invocation;
pub(crate) use on_mount::check as check_not_on_mount;
