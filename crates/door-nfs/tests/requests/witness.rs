//! Somebody who must go on while others do what they should not.

use crate::common::Served;
use crate::common::client::Client;
use crate::common::codes::stable;
use crate::common::ops::StateId;

/// A client that must go on while others send nonsense.
pub(crate) struct Witness {
    client: Client,
    file: Vec<u8>,
    id: StateId,
}

impl Witness {
    pub(crate) fn new(served: &Served) -> Self {
        let mut client = served.client("witness");
        let root = client.root();
        let (file, id) = client.make(&root, "witness");
        client.write(&file, id, 0, stable::UNSTABLE, b"unharmed").expect("writes");
        Self { client, file, id }
    }

    pub(crate) fn check(&mut self) {
        let read = self.client.read(&self.file, self.id, 0, 100).expect("reads");
        assert_eq!(read, (b"unharmed".to_vec(), true));
    }
}
