//! Makes types and services of the interface's definition, without `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/csi.proto");
    let definition = protox::compile(["proto/csi.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        // What this driver has not answers UNIMPLEMENTED.
        .generate_default_stubs(true)
        // What it says in Markdown is not Rust's to test.
        .disable_comments(["."])
        .compile_fds(definition)?;
    Ok(())
}
