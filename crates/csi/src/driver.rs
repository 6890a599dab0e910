//! The driver: one object, of which each service of the interface is a face.

use tonic::{Request, Response, Status};

use crate::fault::Result;
use crate::shared::MountedVolumes;

/// What this driver is called in a cluster.
pub(crate) const NAME: &str = "csi.weir";

/// All that a request needs.
#[derive(Clone, Debug)]
pub(crate) struct Driver {
    pub(crate) shared: MountedVolumes,
    /// The node's name in the cluster.
    pub(crate) node_id: String,
    pub(crate) with_controller: bool,
}

/// Does what a request asks for, on a thread where it may wait. A caller who hangs up cuts nothing
/// off halfway: they ask again, and find it done.
pub(crate) async fn answer<Q, A>(
    driver: &Driver,
    request: Request<Q>,
    work: impl FnOnce(&Driver, Q) -> Result<A> + Send + 'static,
) -> std::result::Result<Response<A>, Status>
where
    Q: Send + 'static,
    A: Send + 'static,
{
    let driver = driver.clone();
    let done = tokio::task::spawn_blocking(move || {
        let done = work(&driver, request.into_inner());
        if let Err(fault) = &done {
            tracing::warn!(request = std::any::type_name::<Q>(), "{fault}");
        }
        done
    });
    match done.await {
        Ok(done) => done.map(Response::new).map_err(Status::from),
        Err(e) => Err(Status::internal(format!("the request ended in the middle: {e}"))),
    }
}
