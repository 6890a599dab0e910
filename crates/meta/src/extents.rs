//! Extent list algebra.
