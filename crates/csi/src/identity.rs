//! Who this driver is, and what it has.

use tonic::{Request, Response, Status};

use crate::driver::{Driver, NAME};
use crate::proto::identity_server::Identity;
use crate::proto::plugin_capability::service::Type;
use crate::proto::plugin_capability::{Service, Type as Kind};
use crate::proto::*;

#[tonic::async_trait]
impl Identity for Driver {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(GetPluginInfoResponse {
            name: NAME.to_owned(),
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Default::default()
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        let controller = Kind::Service(Service { r#type: Type::ControllerService.into() });
        let capability = PluginCapability { r#type: Some(controller) };
        let capabilities = self.with_controller.then_some(capability).into_iter().collect();
        Ok(Response::new(GetPluginCapabilitiesResponse { capabilities }))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        Ok(Response::new(ProbeResponse { ready: Some(true) }))
    }
}
