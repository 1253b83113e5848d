//! Files of one volume that hide one another.

use std::fmt;

use serde_json::Value;

use super::super::walk::{At, is_empty};

/// A file, and what it is made from where a volume has many sources.
#[derive(Debug, Clone, PartialEq, Eq)]
struct File {
    path: String,
    source: String,
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source.as_str() {
            "" => write!(f, "{:?}", self.path),
            source => write!(f, "{:?} ({source})", self.path),
        }
    }
}

impl File {
    fn new(path: &str, source: &str) -> Self {
        File { path: path.trim_end_matches('/').to_owned(), source: source.to_owned() }
    }

    /// Whether one is the other, or lies in the folder that the other would be.
    fn overlaps(&self, other: &File) -> bool {
        let within = |inner: &str, outer: &str| format!("{inner}/").starts_with(&format!("{outer}/"));
        !self.path.is_empty()
            && !other.path.is_empty()
            && (within(&self.path, &other.path) || within(&other.path, &self.path))
    }
}

/// Warnings about the volumes of a pod.
pub(super) fn overlaps(volumes: &At<'_>) -> Vec<String> {
    volumes.items().flat_map(|volume| of_volume(&volume)).collect()
}

fn of_volume(volume: &At<'_>) -> Vec<String> {
    let (map, secret) = (volume.child("configMap"), volume.child("secret"));
    let name = volume.text("name");
    let mut warnings = Vec::new();
    for (what, files) in [
        (format!("ConfigMap {:?}", map.text("name")), items(&map, "")),
        (format!("Secret {:?}", secret.text("secretName")), items(&secret, "")),
        ("DownwardAPI".to_owned(), items(&volume.child("downwardAPI"), "")),
    ] {
        let mut known = Vec::new();
        warnings.extend(files.into_iter().flat_map(|file| collisions(&mut known, file, name, &what)));
    }
    let mut known = Vec::new();
    for source in volume.child("projected").child("sources").items() {
        if nothing(source.value) {
            warnings.push(format!("volume {name:?} (Projected) has no sources provided"));
        }
        let files = projected(&source).into_iter();
        warnings.extend(files.flat_map(|file| collisions(&mut known, file, name, "Projected")));
    }
    warnings
}

fn nothing(source: &Value) -> bool {
    is_empty(source) || source.as_object().is_some_and(|map| map.values().all(Value::is_null))
}

/// One sentence for each known file that overlaps with one more, which is known from then on.
fn collisions(known: &mut Vec<File>, file: File, volume: &str, what: &str) -> Vec<String> {
    let others = known.iter().filter(|other| file.overlaps(other));
    let found = others
        .map(|other| format!("volume {volume:?} ({what}): overlapping paths: {file} with {other}"))
        .collect();
    known.push(file);
    found
}

fn items(source: &At<'_>, shown: &str) -> Vec<File> {
    source.child("items").items().map(|item| File::new(item.text("path"), shown)).collect()
}

fn projected(source: &At<'_>) -> Vec<File> {
    let named = |kind: &str, at: &At<'_>| items(at, &format!("{kind} {:?}", at.text("name")));
    let mut files = named("ConfigMap", &source.child("configMap"));
    files.extend(named("Secret", &source.child("secret")));
    files.extend(items(&source.child("downwardAPI"), "DownwardAPI"));
    let token = source.child("serviceAccountToken");
    files.extend(token.is_set().then(|| File::new(token.text("path"), "ServiceAccountToken")));
    let bundle = source.child("clusterTrustBundle");
    if bundle.is_set() {
        let name = if bundle.has("name") { bundle.text("name") } else { bundle.text("signerName") };
        files.push(File::new(bundle.text("path"), &format!("ClusterTrustBundle {name:?}")));
    }
    let certificate = source.child("podCertificate");
    for (field, shown) in [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ] {
        files.push(File::new(certificate.text(field), shown));
    }
    files
}
