//! From one binary to another in the same process: what is handed over, and how it is executed.

mod binary;
mod exec;
mod handed;
mod invocation;

pub(crate) use binary::{Answer, Binary, Question, VERSIONS};
pub(crate) use exec::{exec, hear_signals, now_ns};
pub(crate) use handed::{Attempt, Handed, Sockets, State, memory, number};
pub(crate) use invocation::Invocation;
