//! Lists in compressed nodes.

use std::fmt;
use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::fault::Fault;
use crate::task::write;

/// Most bytes of a list after decompression.
const LARGEST: u64 = 64 * 1024 * 1024;

/// Compresses a list.
pub(crate) fn squeeze<T: Serialize>(list: &[T]) -> Result<Vec<u8>, Fault> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let squeezed = encoder.write_all(&write(&list)).and_then(|()| encoder.finish());
    squeezed.map_err(|error| Fault::Corrupt(format!("a list cannot be compressed: {error}")))
}

/// Reads a list that was compressed. `path` is named in the error.
pub(crate) fn unpack<T: DeserializeOwned>(path: &str, data: &[u8]) -> Result<T, Fault> {
    let odd =
        |error: &dyn fmt::Display| Fault::Corrupt(format!("{path} does not read as a packed list: {error}"));
    let mut text = Vec::new();
    GzDecoder::new(data).take(LARGEST).read_to_end(&mut text).map_err(|error| odd(&error))?;
    serde_json::from_slice(&text).map_err(|error| odd(&error))
}
