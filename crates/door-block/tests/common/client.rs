//! A small NBD client of the tests.
