//! What all parts of an engine know: where the tables are, who commits, and which versions it gives.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_postgres::Client;
use weir_types::{ErrorKind, FsError};

use super::super::contract::{Key, Version};
use super::clock::Versions;
use super::connect::Place;
use super::error::{Failed, failed};
use super::sql;

/// One that commits, among others in one database.
pub(super) struct Node {
    pub(super) place: Arc<Place>,
    /// Whom a lane's row names; others take no lane of ours.
    pub(super) owner: i64,
    pub(super) versions: Versions,
    /// What each commit checks besides.
    pub(super) guard: Mutex<Option<(Key, Version)>>,
}

impl Node {
    pub(super) fn new(place: Arc<Place>) -> Self {
        Self {
            place,
            owner: rand::random_range(1..i64::MAX),
            versions: Versions::default(),
            guard: Mutex::default(),
        }
    }

    /// Asks the server for its time, which versions are made of.
    pub(super) async fn ask_time(&self, client: &Client) -> Result<(), Failed> {
        let row = client.query_one(sql::NOW, &[]).await;
        let row = row.map_err(|error| failed("ask the database for the time", error))?;
        self.versions.tell(row.get(0));
        Ok(())
    }

    pub(super) fn fenced(&self) -> FsError {
        let context = format!(
            "volume {} in {} has another writer by now: unmount here, then mount again",
            self.place.volume, self.place.url
        );
        FsError::new(ErrorKind::Fenced, context)
    }
}
