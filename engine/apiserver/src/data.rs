//! What one Kubernetes release knows of itself: OpenAPI documents, discovery, bootstrap objects and
//! the shapes of its Go types, dumped from a stock server by `hack/kubernetes/dump` into one file.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::OnceLock;

use serde::Deserialize;

const FILE: &[u8] = include_bytes!("../data/kubernetes.bin");
const MAGIC: &[u8] = b"KOINON-DATA-1\n";

#[derive(Deserialize)]
struct Entry {
    name: String,
    offset: usize,
    size: usize,
}

fn index() -> &'static BTreeMap<String, &'static [u8]> {
    static INDEX: OnceLock<BTreeMap<String, &'static [u8]>> = OnceLock::new();
    INDEX.get_or_init(|| {
        let rest = FILE.strip_prefix(MAGIC).expect("the data file starts with its magic");
        let (length, rest) = rest.split_first_chunk::<4>().expect("the data file has an index");
        let (index, blobs) = rest.split_at(u32::from_le_bytes(*length) as usize);
        let entries: Vec<Entry> = serde_json::from_slice(index).expect("the data file's index is JSON");
        entries.into_iter().map(|e| (e.name, &blobs[e.offset..e.offset + e.size])).collect()
    })
}

/// An entry as it lies in the file, compressed with gzip: what a client that accepts gzip can be sent.
pub fn compressed(name: &str) -> Option<&'static [u8]> {
    index().get(name).copied()
}

/// An entry, unpacked.
pub fn read(name: &str) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    flate2::read::GzDecoder::new(compressed(name)?)
        .read_to_end(&mut content)
        .expect("the data file's entries are gzip");
    Some(content)
}

/// The names of all entries that start with `prefix`, in order.
pub fn names(prefix: &str) -> impl Iterator<Item = &'static str> {
    index().keys().map(String::as_str).filter(move |name| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_document_unpacks_to_json() {
        let mut seen = 0;
        for name in super::names("").filter(|name| !name.ends_with(".pb")) {
            let content = super::read(name).expect("it is in the index");
            let _: serde::de::IgnoredAny = serde_json::from_slice(&content).expect(name);
            seen += 1;
        }
        assert!(seen > 40, "{seen} entries");
        assert!(super::read("nothing").is_none());
    }
}
