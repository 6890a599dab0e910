//! Fault and latency decorators, a real S3 server, and the conformance suite; for tests.
