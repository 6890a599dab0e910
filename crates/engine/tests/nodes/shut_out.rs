//! What a node had not flushed when the others shut it out.
#![allow(clippy::disallowed_methods, reason = "nodes beat by the real clock here")]

use weir_engine::testing::{WRITE, clock, create, read_all};
use weir_engine::{NodesOptions, OpenFlags, evict_node};

use crate::whole::{Node, shared};

/// A node may look at files between the moment in which it is shut out and that in which it knows: what others did to
/// them in that time is not what it wrote beside them.
#[test]
fn what_was_not_flushed_when_a_node_was_shut_out_never_replaces_what_others_wrote_since() {
    for reads in [false, true] {
        let world = shared();
        let engine = world.engine();
        let other = Node::of(&world, "other");
        let ino = world.run(create(&engine, "f", b"what was there"));
        other.run(async {
            let file = other.engine.open(ino, WRITE).await.expect("opens");
            other.engine.write(&file, 0, b"NOBODY WAITED").await.expect("writes");
            let status = other.engine.status().await.expect("status");
            let id = status.nodes.expect("shares the volume").id;
            let options = NodesOptions {
                url: world.options.url.clone(),
                connector: world.options.connector.clone(),
                metadata_url: None,
            };
            evict_node(&options, &id, (clock().now)()).await.expect("evicts");
        });
        world.run(async {
            let file = engine.open(ino, WRITE).await.expect("opens");
            engine.write(&file, 0, b"others").await.expect("writes");
            engine.flush_for_others(ino).await.expect("as the doors do at a close");
            engine.close(file).await.expect("closes");
        });
        if reads {
            // Whether that is answered or refused.
            let _ = other.run(other.engine.getattr(ino));
            let _ = other.run(other.engine.open(ino, OpenFlags::default()));
        }
        other.kill();
        let again = Node::of(&world, "other");
        let report = again.run(again.engine.status()).expect("status").mount;
        assert_eq!(report.set_aside.map(|aside| aside.files), Some(1), "reads: {reads}");
        again.run(again.engine.flush_all()).expect("flushes");
        let read = [world.run(read_all(&engine, ino)), again.run(read_all(&again.engine, ino))];
        let read = read.map(|read| read.expect("reads").escape_ascii().to_string());
        assert_eq!(read, ["othersas there"; 2], "reads: {reads}");
        again.unmount();
    }
}
