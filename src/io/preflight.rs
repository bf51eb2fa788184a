//! stub
use std::net::SocketAddr;
pub fn system(_: usize) -> Result<(), String> {
    Ok(())
}
pub fn data_directory(d: &std::path::Path, _: bool) -> Result<(), String> {
    std::fs::create_dir_all(d).map_err(|e| e.to_string())
}
pub fn port_error(a: SocketAddr, e: &std::io::Error) -> String {
    format!("{a}: {e}")
}
pub fn memory_error(m: u64, e: &std::io::Error) -> String {
    format!("{m}: {e}")
}
