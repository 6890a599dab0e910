//! The controller: makes and removes the directories that dynamic volumes are.

use std::path::Path;

use tonic::{Code, Request, Response, Status};

use crate::capability::Access;
use crate::directories::{self, Record};
use crate::driver::{Driver, answer};
use crate::fault::{Fault, Result};
use crate::proto::controller_server::Controller;
use crate::proto::controller_service_capability::rpc::Type;
use crate::proto::controller_service_capability::{Rpc, Type as Kind};
use crate::proto::*;
use crate::source::{SIZE_ENFORCED, Source, directory_name};
use crate::weir::Keys;

impl Driver {
    fn create_volume(&self, request: &CreateVolumeRequest) -> Result<CreateVolumeResponse> {
        if request.name.is_empty() {
            return Err(Fault::invalid("the volume has no name"));
        }
        Access::check_all(&request.volume_capabilities)?;
        if request.volume_content_source.is_some() {
            return Err(Fault::invalid(
                "volumes are made empty: there are no snapshots and clones",
            ));
        }
        let keys = Keys::from_secrets(&request.secrets)?;
        let parameters = Source::from_map(&request.parameters)?;
        if parameters.directory.is_some() {
            let text = "a storage class has basePath, not directory: each of its volumes is one";
            return Err(Fault::invalid(text));
        }
        let source = parameters.below_base(&directory_name(&request.name));
        let wanted = request.capacity_range.unwrap_or_default();
        let record = Record {
            name: request.name.clone(),
            capacity_bytes: capacity(&wanted)?,
            ephemeral: false,
        };
        let directory = source.directory.clone().unwrap_or_default();
        let mode = source.mode_bits()?;
        let made = self.shared.with(&source, &keys, false, |root| {
            let made = directories::make(root, &directory, &record, mode)?;
            self.enforce(root, &directory, made.capacity_bytes)?;
            Ok(made)
        })?;
        if made.name != record.name || made.ephemeral || !fits(made.capacity_bytes, &wanted) {
            let text = "is there already, with another size or for another purpose";
            return Err(Fault::exists(format!("the volume {} {text}", request.name)));
        }
        let mut volume_context = source.to_map();
        volume_context.insert(SIZE_ENFORCED.to_owned(), (made.capacity_bytes > 0).to_string());
        let volume = Volume {
            volume_id: source.to_id()?,
            capacity_bytes: made.capacity_bytes,
            volume_context,
            ..Volume::default()
        };
        Ok(CreateVolumeResponse { volume: Some(volume) })
    }

    /// Holds a directory to its size, if it has one.
    fn enforce(&self, root: &Path, directory: &str, capacity_bytes: i64) -> Result<()> {
        match capacity_bytes > 0 {
            true => self.shared.weir.set_quota(&root.join(directory), capacity_bytes),
            false => Ok(()),
        }
    }

    fn delete_volume(&self, request: &DeleteVolumeRequest) -> Result<DeleteVolumeResponse> {
        if request.volume_id.is_empty() {
            return Err(Fault::invalid("no volume id is given"));
        }
        // What this driver never made is not there.
        if let Some(source) = Source::from_id(&request.volume_id) {
            let keys = Keys::from_secrets(&request.secrets)?;
            let directory = source.directory.clone().unwrap_or_default();
            self.shared.with(&source, &keys, false, |root| self.remove(root, &directory))?;
        }
        Ok(DeleteVolumeResponse {})
    }

    /// Removes a directory that was made here, unless that removed objects of somebody else.
    pub(crate) fn remove(&self, root: &Path, directory: &str) -> Result<()> {
        if self.shared.weir.has_links(root, directory)? {
            let text =
                "a bucket is linked there, whose objects might be removed: `weir unlink` it first";
            return Err(Fault::refused(format!("{directory}: {text}")));
        }
        directories::remove(root, directory)
    }

    fn validate(
        &self,
        request: ValidateVolumeCapabilitiesRequest,
    ) -> Result<ValidateVolumeCapabilitiesResponse> {
        if request.volume_id.is_empty() {
            return Err(Fault::invalid("no volume id is given"));
        }
        if request.volume_capabilities.is_empty() {
            return Err(Fault::invalid("no volume capabilities are given"));
        }
        let keys = Keys::from_secrets(&request.secrets)?;
        let source = Source::from_id(&request.volume_id);
        let found = match &source {
            Some(source) => self.shared.look(source, &keys, |root| {
                directories::record_of(root, source.directory.as_deref().unwrap_or_default())
            })?,
            None => None,
        };
        if found.is_none() {
            let text = format!("there is no volume {}", request.volume_id);
            return Err(Fault::new(Code::NotFound, text));
        }
        Ok(match Access::check_all(&request.volume_capabilities) {
            Ok(()) => ValidateVolumeCapabilitiesResponse {
                confirmed: Some(validate_volume_capabilities_response::Confirmed {
                    volume_context: request.volume_context,
                    volume_capabilities: request.volume_capabilities,
                    parameters: request.parameters,
                    mutable_parameters: request.mutable_parameters,
                }),
                message: String::new(),
            },
            Err(fault) => {
                ValidateVolumeCapabilitiesResponse { confirmed: None, message: fault.to_string() }
            }
        })
    }
}

/// The size of a volume: the least that is asked for, else the most.
fn capacity(range: &CapacityRange) -> Result<i64> {
    let (least, most) = (range.required_bytes, range.limit_bytes);
    if least < 0 || most < 0 || (most > 0 && least > most) {
        return Err(Fault::new(
            Code::OutOfRange,
            format!("no size is from {least} to {most} bytes"),
        ));
    }
    Ok(if least > 0 { least } else { most })
}

fn fits(bytes: i64, range: &CapacityRange) -> bool {
    bytes >= range.required_bytes && (range.limit_bytes == 0 || bytes <= range.limit_bytes)
}

#[tonic::async_trait]
impl Controller for Driver {
    async fn create_volume(
        &self,
        request: Request<CreateVolumeRequest>,
    ) -> std::result::Result<Response<CreateVolumeResponse>, Status> {
        answer(self, request, |driver, request| driver.create_volume(&request)).await
    }

    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> std::result::Result<Response<DeleteVolumeResponse>, Status> {
        answer(self, request, |driver, request| driver.delete_volume(&request)).await
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> std::result::Result<Response<ValidateVolumeCapabilitiesResponse>, Status> {
        answer(self, request, Driver::validate).await
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> std::result::Result<Response<ControllerGetCapabilitiesResponse>, Status> {
        let can = [Type::CreateDeleteVolume, Type::SingleNodeMultiWriter];
        let capabilities = can.map(|can| ControllerServiceCapability {
            r#type: Some(Kind::Rpc(Rpc { r#type: can.into() })),
        });
        let capabilities = capabilities.to_vec();
        Ok(Response::new(ControllerGetCapabilitiesResponse { capabilities }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_the_least_that_was_asked_for() {
        let range = |required_bytes, limit_bytes| CapacityRange { required_bytes, limit_bytes };
        for (asked, noted) in [((0, 0), 0), ((5, 0), 5), ((5, 9), 5), ((0, 9), 9)] {
            assert_eq!(capacity(&range(asked.0, asked.1)).unwrap(), noted);
            assert!(fits(noted, &range(asked.0, asked.1)));
        }
        assert_eq!(capacity(&range(9, 5)).unwrap_err().code(), Code::OutOfRange);
        assert!(!fits(5, &range(9, 0)) && !fits(9, &range(0, 5)));
    }
}
