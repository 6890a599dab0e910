//! Amazon S3: request rates, first bytes and connections.
//!
//! Numbers are those of the S3 user guide, "Best practices design patterns: optimizing Amazon S3
//! performance".

/// Requests that store, copy or delete, a second, for each prefix.
pub const PUT_PER_S_PER_PREFIX: f64 = 3500.0;

/// Requests that read, a second, for each prefix.
pub const GET_PER_S_PER_PREFIX: f64 = 5500.0;

/// How long the first byte takes: "roughly 100-200 milliseconds", the middle of it.
pub const FIRST_BYTE_S: f64 = 0.15;

/// What one connection carries: "85-90 MB/s", the middle of it.
pub const CONNECTION_BYTES_PER_S: f64 = 87.5e6;

/// The ranges to ask for: "8 MB or 16 MB".
pub const RANGE_BYTES: f64 = 8e6;

/// Bytes a second over `connections` that each ask for the next `request_bytes` once they have the
/// last ones: the first byte, then the connection's rate.
pub fn bytes_per_s(connections: f64, request_bytes: f64) -> f64 {
    connections * request_bytes / request_seconds(request_bytes)
}

/// Connections that it takes to reach a rate.
pub fn connections_for(bytes_per_s: f64, request_bytes: f64) -> f64 {
    bytes_per_s * request_seconds(request_bytes) / request_bytes
}

/// How long one request takes.
pub fn request_seconds(request_bytes: f64) -> f64 {
    FIRST_BYTE_S + request_bytes / CONNECTION_BYTES_PER_S
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The guide: a concurrent request for each 85-90 MB/s of network; 15 of them for 10 Gbps.
    #[test]
    fn fifteen_large_requests_fill_ten_gigabits() {
        let connections = connections_for(10e9 / 8.0, 1e9);
        assert!((14.0..16.0).contains(&connections), "{connections}");
        let there_and_back = bytes_per_s(connections, 1e9);
        assert!((there_and_back / 1.25e9 - 1.0).abs() < 1e-12, "{there_and_back}");
    }

    #[test]
    fn small_requests_wait_for_their_first_byte() {
        // 1 MiB: 150 ms and 12 ms.
        let rate = bytes_per_s(1.0, f64::from(1 << 20));
        assert!((6.4e6..6.5e6).contains(&rate), "{rate}");
    }
}
