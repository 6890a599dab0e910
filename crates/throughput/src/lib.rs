//! Token and credit buckets, throughput modes, and fair queues. Pure: time is an argument.
//!
//! One set of models governs the live file system and predicts the services: what throttles a mount
//! in bursting mode is the code that simulates EFS.
