//! Encoding of values.
