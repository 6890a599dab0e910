//! The building of commits.
