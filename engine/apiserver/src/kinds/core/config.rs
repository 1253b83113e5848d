//! ConfigMaps, Secrets and ServiceAccounts.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{META_ONLY, Strategy};
use crate::field::{Error, Path};
use crate::kinds::meta::{self, annotation};
use crate::kinds::walk::{
    At, Faults, IMMUTABLE, copy, get, items_mut, map_mut, object_mut, remove, same, set_zero, text,
};
use crate::names;
use crate::schema::raw::Json;

/// The bytes that all values together may have.
const SIZE_MOST: usize = 1024 * 1024;
const LOCKED: &str = "field is immutable when `immutable` is set";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

pub(super) const CONFIG_MAP: Strategy = Strategy {
    validate: |map| [meta::validate_builtin(map), validate_config_map(map)].concat(),
    validate_update: |new, old| {
        let mut faults = meta::validate_builtin_update(new, old);
        faults.extend(validate_locked(new, old, &["data", "binaryData"]));
        faults.extend(meta::validate_builtin_again(new, true, names::dns1123_subdomain));
        faults.extend(validate_config_map(new));
        faults
    },
    ..META_ONLY
};

pub(super) const SECRET: Strategy = Strategy {
    default: default_secret,
    validate: |secret| [meta::validate_builtin(secret), validate_secret(secret)].concat(),
    prepare_update: |new, old| {
        if text(new, "type").is_empty() {
            copy(new, old, "type");
        }
    },
    validate_update: |new, old| {
        let mut faults = meta::validate_builtin_update(new, old);
        if text(new, "type") != text(old, "type") {
            faults.push(Error::invalid(&Path::new("type"), text(new, "type"), IMMUTABLE));
        }
        faults.extend(validate_locked(new, old, &["data"]));
        faults.extend(meta::validate_builtin_again(new, true, names::dns1123_subdomain));
        faults.extend(validate_secret(new));
        faults
    },
    ..META_ONLY
};

pub(super) const SERVICE_ACCOUNT: Strategy = Strategy {
    prepare_create: keep_names_of_secrets,
    prepare_update: |new, _| keep_names_of_secrets(new),
    ..META_ONLY
};

fn validate_config_map(map: &Value) -> Faults {
    let (data, binary) = (At::top(map, "data"), At::top(map, "binaryData"));
    let mut faults = Faults::new();
    let mut size = 0;
    for (key, value) in data.entries() {
        faults.extend(bad_key(key, &value.path));
        if binary.has(key) {
            faults.push(Error::invalid(&value.path, key, "duplicate of key present in binaryData"));
        }
        size += value.str().len();
    }
    for (key, value) in binary.entries() {
        faults.extend(bad_key(key, &value.path));
        size += decoded_size(value.str());
    }
    if size > SIZE_MOST {
        faults.push(Error::too_long(&Path::new(""), SIZE_MOST));
    }
    faults
}

fn bad_key<'a>(key: &'a str, path: &'a Path) -> impl Iterator<Item = Error> + 'a {
    names::config_map_key(key).into_iter().map(move |why| Error::invalid(path, key, why))
}

fn decoded_size(text: &str) -> usize {
    text.len() / 4 * 3 - text.bytes().rev().take_while(|byte| *byte == b'=').count()
}

fn validate_locked(new: &Value, old: &Value, fields: &[&str]) -> Faults {
    if old["immutable"] != true {
        return Faults::new();
    }
    let unlocked = (new["immutable"] != true).then_some("immutable");
    let changed = fields.iter().filter(|name| !same(&new[**name], &old[**name])).copied();
    unlocked.into_iter().chain(changed).map(|name| Error::forbidden(&Path::new(name), LOCKED)).collect()
}

/// Texts that were given in the clear become data; only data is ever stored.
fn default_secret(secret: &mut Value) {
    if let Some(clear) = secret.get("stringData").and_then(Value::as_object).cloned() {
        let data = map_mut(object_mut(secret, "data"));
        for (key, value) in clear {
            data.insert(key, STANDARD.encode(value.as_str().unwrap_or_default()).into());
        }
    }
    remove(secret, "stringData");
    set_zero(secret, "type", "Opaque");
}

fn validate_secret(secret: &Value) -> Faults {
    let data = At::top(secret, "data");
    let mut faults = Faults::new();
    let mut size = 0;
    for (key, value) in data.entries() {
        faults.extend(bad_key(key, &value.path));
        size += decoded_size(value.str());
    }
    if size > SIZE_MOST {
        faults.push(Error::too_long(&data.path, SIZE_MOST));
    }
    let missing = |key: &str| Error::required(&data.path.key(key), "");
    match text(secret, "type") {
        "kubernetes.io/service-account-token"
            if annotation(secret, ACCOUNT_NAME).unwrap_or_default().is_empty() =>
        {
            let path = Path::new("metadata").child("annotations").key(ACCOUNT_NAME);
            faults.push(Error::required(&path, ""));
        }
        "kubernetes.io/dockercfg" => faults.extend(validate_docker_config(&data, ".dockercfg")),
        "kubernetes.io/dockerconfigjson" => faults.extend(validate_docker_config(&data, ".dockerconfigjson")),
        "kubernetes.io/basic-auth" if !data.has("username") && !data.has("password") => {
            faults.extend(["username", "password"].map(missing));
        }
        "kubernetes.io/ssh-auth" if data.text("ssh-privatekey").is_empty() => {
            faults.push(missing("ssh-privatekey"));
        }
        "kubernetes.io/tls" => {
            faults.extend(["tls.crt", "tls.key"].into_iter().filter(|key| !data.has(key)).map(missing));
        }
        _ => {}
    }
    faults
}

fn validate_docker_config(data: &At<'_>, key: &str) -> Option<Error> {
    let path = data.path.key(key);
    if !data.has(key) {
        return Some(Error::required(&path, ""));
    }
    let bytes = STANDARD.decode(data.text(key)).unwrap_or_default();
    let problem = match Json::parse(&bytes) {
        Ok(Json::Object(_) | Json::Null) => return None,
        Ok(other) => {
            format!("json: cannot unmarshal {} into Go value of type map[string]interface {{}}", other.kind())
        }
        Err(error) => error.to_string(),
    };
    Some(Error::invalid(&path, "<secret contents redacted>", problem))
}

/// Of the secrets of an account only the name counts.
fn keep_names_of_secrets(account: &mut Value) {
    for secret in items_mut(account, "secrets") {
        let name = get(secret, &["name"]).clone();
        *secret = if name.is_null() { json!({}) } else { json!({ "name": name }) };
    }
}
