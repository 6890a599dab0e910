//! Types and services of the interface, made of `proto/csi.proto`.

#![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, reason = "generated")]

tonic::include_proto!("csi.v1");
