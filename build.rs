fn main() {
    napi_build::setup();
    // A worker that ends unloads the addon while runs of other environments still use its runtime
    // threads. NODELETE keeps the code mapped for the life of the process.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
