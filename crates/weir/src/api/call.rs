//! What a request to a daemon is.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How a call travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// It changes nothing; its fields are the query.
    Get,
    /// It changes something; its fields are a body in JSON, which may be empty where none is needed.
    Post,
}

/// A request to a daemon. The first part of each path is the API's version: fields are added to it,
/// and what means something else gets another.
pub(crate) trait Call: Serialize + DeserializeOwned + JsonSchema + Send + 'static {
    /// What the daemon answers if it can; else it answers a [`Refusal`](super::Refusal).
    type Answer: Serialize + DeserializeOwned + JsonSchema + Send + 'static;
    const METHOD: Method;
    const PATH: &'static str;
}

/// Says how a type is called.
macro_rules! call {
    ($method:ident $path:literal, $call:ty => $answer:ty) => {
        impl $crate::api::call::Call for $call {
            type Answer = $answer;
            const METHOD: $crate::api::call::Method = $crate::api::call::Method::$method;
            const PATH: &'static str = $path;
        }
    };
}
pub(super) use call;
