//! Security contexts of pods and containers, and the old annotations that say the same.
//!
//! Privileged containers are allowed, as on every cluster that runs its own network plugin.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::containers::all;
use super::volumes::local_path;
use crate::field::Error;
use crate::kinds::internal;
use crate::kinds::walk::{At, Faults, is_empty};
use crate::names;

const NOT_ON_WINDOWS: &str = "cannot be set for a windows pod";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
/// The annotation that gave a container its AppArmor profile.
pub(super) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

fn ids<'a>(context: &'a At<'_>, names: &'a [&str]) -> impl Iterator<Item = Error> + 'a {
    names.iter().map(|name| context.child(name)).flat_map(|id| {
        let wrong = id.value.as_i64().map(names::user_or_group_id).unwrap_or_default();
        wrong.into_iter().map(move |why| id.invalid(why)).collect::<Faults>()
    })
}

pub(super) fn validate_container(context: &At<'_>, host_users: bool) -> Faults {
    if !context.is_set() {
        return Faults::new();
    }
    let mut faults: Faults = ids(context, &["runAsUser", "runAsGroup"]).collect();
    let mount = context.child("procMount");
    if mount.is_set() {
        if !["Default", "Unmasked"].contains(&mount.str()) {
            faults.push(mount.not_supported(&["Default", "Unmasked"]));
        }
        if host_users && mount.str() == "Unmasked" {
            faults.push(mount.invalid("`hostUsers` must be false to use `Unmasked`"));
        }
    }
    faults.extend(validate_seccomp(&context.child("seccompProfile")));
    if context.child("allowPrivilegeEscalation").value == &Value::Bool(false) {
        let conflict = |what: &str| {
            let shown = internal::show("SecurityContext", context.value);
            let detail = format!("{shown}: cannot set `allowPrivilegeEscalation` to false and {what}");
            Error { value: None, ..context.invalid(detail) }
        };
        if context.is_true("privileged") {
            faults.push(conflict("`privileged` to true"));
        }
        let added = context.child("capabilities").child("add");
        let admin = added.items().filter(|one| one.str() == "CAP_SYS_ADMIN").count();
        faults.extend((0..admin).map(|_| conflict("`capabilities.Add` CAP_SYS_ADMIN")));
    }
    faults.extend(validate_windows_options(&context.child("windowsOptions")));
    faults.extend(validate_app_armor(&context.child("appArmorProfile")));
    faults
}

pub(super) fn validate_pod(spec: &At<'_>) -> Faults {
    let context = spec.child("securityContext");
    if !context.is_set() {
        return Faults::new();
    }
    let mut faults: Faults = ids(&context, &["fsGroup", "runAsUser", "runAsGroup"]).collect();
    for group in context.child("supplementalGroups").items() {
        let wrong = group.value.as_i64().map(names::user_or_group_id).unwrap_or_default();
        faults.extend(wrong.into_iter().map(|why| group.invalid(why)));
    }
    if spec.is_true("shareProcessNamespace") && spec.is_true("hostPID") {
        let path = context.child("shareProcessNamespace").path;
        faults.push(Error::invalid(&path, true, "ShareProcessNamespace and HostPID cannot both be enabled"));
    }
    faults.extend(validate_sysctls(&context.child("sysctls"), spec));
    let one_of = |name: &str, supported: &[&str]| {
        let field = context.child(name);
        (field.is_set() && !supported.contains(&field.str())).then(|| field.not_supported(supported))
    };
    faults.extend(one_of("fsGroupChangePolicy", &["Always", "OnRootMismatch"]));
    faults.extend(validate_seccomp(&context.child("seccompProfile")));
    faults.extend(validate_windows_options(&context.child("windowsOptions")));
    faults.extend(validate_app_armor(&context.child("appArmorProfile")));
    faults.extend(one_of("supplementalGroupsPolicy", &["Merge", "Strict"]));
    // The other policy is behind a feature that is off in this release.
    faults.extend(one_of("seLinuxChangePolicy", &["Recursive"]));
    faults
}

const SYSCTL: &str = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
static SYSCTL_NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(SYSCTL).expect("a constant pattern"));

fn validate_sysctls(sysctls: &At<'_>, spec: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    let mut seen = BTreeSet::new();
    for sysctl in sysctls.items().map(|one| one.child("name")) {
        let name = sysctl.str();
        if name.is_empty() {
            faults.push(sysctl.required(""));
        } else if name.len() > 253 || !SYSCTL_NAME.is_match(name) {
            let detail = format!("must have at most 253 characters and match regex {SYSCTL}");
            faults.push(sysctl.invalid(detail));
        } else if seen.contains(&name) {
            faults.push(sysctl.duplicate());
        }
        let dotted = name.replace('/', ".");
        let ipc = ["kernel.sem", "kernel.shm", "kernel.msg", "fs.mqueue."];
        if spec.is_true("hostNetwork") && dotted.starts_with("net.") {
            faults.push(sysctl.invalid("may not be specified when 'hostNetwork' is true"));
        } else if spec.is_true("hostIPC") && ipc.iter().any(|prefix| dotted.starts_with(prefix)) {
            faults.push(sysctl.invalid("may not be specified when 'hostIPC' is true"));
        }
        seen.insert(name);
    }
    faults
}

fn validate_seccomp(profile: &At<'_>) -> Faults {
    if !profile.is_set() {
        return Faults::new();
    }
    let mut faults = Faults::new();
    let (kind, local) = (profile.child("type"), profile.child("localhostProfile"));
    match kind.str() {
        "Localhost" | "RuntimeDefault" | "Unconfined" => {}
        "" => faults.push(kind.required("type is required when seccompProfile is set")),
        _ => faults.push(kind.not_supported(&["Localhost", "RuntimeDefault", "Unconfined"])),
    }
    if kind.str() == "Localhost" {
        if local.is_set() {
            faults.extend(local_path(&local));
        } else {
            faults.push(local.required("must be set when seccomp type is Localhost"));
        }
    } else if local.is_set() {
        let shown = internal::show("SeccompProfile", profile.value);
        let detail = format!("{shown}: can only be set when seccomp type is Localhost");
        faults.push(Error { value: None, ..local.invalid(detail) });
    }
    faults
}

fn validate_app_armor(profile: &At<'_>) -> Faults {
    if !profile.is_set() {
        return Faults::new();
    }
    let mut faults = Faults::new();
    let (kind, local) = (profile.child("type"), profile.child("localhostProfile"));
    match kind.str() {
        "Localhost" => {
            let name = local.str();
            if name.trim() != name {
                faults.push(local.invalid("must not be padded with whitespace"));
            } else if name.is_empty() {
                faults.push(local.required("must be set when AppArmor type is Localhost"));
            }
            if name.len() > 4095 {
                faults.push(Error::too_long(&local.path, 4095));
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if local.is_set() {
                faults.push(local.invalid("can only be set when AppArmor type is Localhost"));
            }
        }
        "" => faults.push(kind.required("type is required when appArmorProfile is set")),
        _ => faults.push(kind.not_supported(&["Localhost", "RuntimeDefault", "Unconfined"])),
    }
    faults
}

fn validate_windows_options(options: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    let name = options.child("gmsaCredentialSpecName");
    if name.is_set() {
        faults.extend(name.obey(names::dns1123_subdomain));
    }
    let spec = options.child("gmsaCredentialSpec");
    if spec.is_set() && spec.str().is_empty() {
        faults.push(spec.invalid("gmsaCredentialSpec cannot be an empty string"));
    } else if spec.str().len() > 64 * 1024 {
        faults.push(spec.invalid("gmsaCredentialSpec size must be under 64 KiB"));
    }
    let user = options.child("runAsUserName");
    if user.is_set() {
        faults.extend(windows_user(user.str()).into_iter().map(|why| user.invalid(why)));
    }
    faults
}

static NET_BIOS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"^[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}$"#).expect("a constant pattern"));
static WINDOWS_DOMAIN: LazyLock<Regex> = LazyLock::new(|| {
    let label = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?";
    Regex::new(&format!(r"^{label}(?:\.{label})*$")).expect("a constant pattern")
});

fn windows_user(name: &str) -> Vec<&'static str> {
    if name.is_empty() {
        return vec!["runAsUserName cannot be an empty string"];
    }
    if name.contains(|c: char| c.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters"];
    }
    let parts: Vec<&str> = name.split('\\').collect();
    let (domain, user) = match parts[..] {
        [user] => (None, user),
        [domain, user] => (Some(domain), user),
        _ => return vec!["runAsUserName cannot contain more than one backslash"],
    };
    let mut wrong = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= 256) {
        wrong.push("runAsUserName's Domain length must be under 256 characters");
    }
    if domain.is_some_and(|domain| !NET_BIOS.is_match(domain) && !WINDOWS_DOMAIN.is_match(domain)) {
        wrong.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
    }
    if user.is_empty() {
        wrong.push("runAsUserName's User cannot be empty");
    } else if user.len() > 104 {
        wrong.push("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| c == '.' || c == ' ') {
        wrong.push("runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(|c| "\"/\\:;|=,+*?<>@[]".contains(c)) {
        wrong.push("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
    wrong
}

/// Containers that share the host of a Windows node do so together, or not at all.
pub(super) fn validate_host_process(spec: &At<'_>) -> Faults {
    let process = |holder: &At<'_>| {
        holder.child("securityContext").child("windowsOptions").child("hostProcess").value.as_bool()
    };
    let own = process(spec);
    let mut faults = Faults::new();
    let (mut count, mut shared) = (0, 0);
    for container in all(spec) {
        let theirs = process(&container);
        if let (Some(own), Some(theirs)) = (own, theirs)
            && own != theirs
        {
            let at = container.child("securityContext").child("windowsOptions").child("hostProcess");
            let detail = format!("pod hostProcess value must be identical if both are specified, was {own}");
            faults.push(at.invalid(detail));
        }
        count += 1;
        shared += usize::from(theirs.or(own) == Some(true));
    }
    if shared > 0 && shared != count {
        let why =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        faults.push(Error::invalid(&spec.path, "", why));
    }
    if shared > 0 && !spec.is_true("hostNetwork") {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        faults.push(Error::invalid(&spec.child("hostNetwork").path, false, why));
    }
    faults
}

/// A pod that has users of its own cannot share the host's.
pub(super) fn validate_host_users(spec: &At<'_>) -> Faults {
    const WHY: &str = "when `hostUsers` is false";
    let mut faults = Faults::new();
    if spec.child("hostUsers").value != &Value::Bool(false) {
        return faults;
    }
    for (name, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.is_true(name) {
            faults.push(spec.child(shown).forbidden(WHY));
        }
    }
    let devices = all(spec).map(|container| container.child("volumeDevices"));
    faults.extend(devices.filter(|devices| !is_empty(devices.value)).map(|devices| devices.forbidden(WHY)));
    faults
}

/// What a pod that names its operating system may not set.
pub(super) fn validate_os(spec: &At<'_>) -> Faults {
    let os = spec.child("os");
    let context = spec.child("securityContext");
    match os.text("name") {
        _ if !os.is_set() => Faults::new(),
        "" => vec![os.child("name").required("")],
        "linux" => std::iter::once(context)
            .chain(all(spec).map(|container| container.child("securityContext")))
            .map(|context| context.child("windowsOptions"))
            .filter(At::is_set)
            .map(|options| options.forbidden("windows options cannot be set for a linux pod"))
            .collect(),
        "windows" => validate_windows(spec, &context),
        name => vec![Error::not_supported(&os.path, name, &["linux", "windows"])],
    }
}

fn validate_windows(spec: &At<'_>, context: &At<'_>) -> Faults {
    let of_pod = [
        context.child("appArmorProfile"),
        context.child("seLinuxOptions"),
        spec.child("hostUsers"),
        spec.child("hostPID"),
        spec.child("hostIPC"),
        context.child("seccompProfile"),
        context.child("fsGroup"),
        context.child("fsGroupChangePolicy"),
        context.child("sysctls"),
        spec.child("shareProcessNamespace"),
        context.child("runAsUser"),
        context.child("runAsGroup"),
        context.child("supplementalGroups"),
        context.child("supplementalGroupsPolicy"),
        context.child("seLinuxChangePolicy"),
    ];
    let of_container = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    let contexts = all(spec).map(|container| container.child("securityContext"));
    let fields = contexts.flat_map(|context| of_container.map(|name| context.child(name)));
    of_pod.into_iter().chain(fields).filter(At::is_set).map(|field| field.forbidden(NOT_ON_WINDOWS)).collect()
}

// === annotations ===

/// What is wrong with the annotations that once stood for fields.
pub(super) fn validate_annotations(annotations: &At<'_>, spec: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    let own = annotations.child(SECCOMP_POD);
    if own.is_set() {
        faults.extend(validate_seccomp_name(&own));
    }
    for (key, _) in annotations.entries().filter(|(key, _)| key.starts_with(SECCOMP_CONTAINER)) {
        faults.extend(validate_seccomp_name(&annotations.child(key)));
    }
    for (key, profile) in annotations.entries() {
        let Some(name) = key.strip_prefix(APP_ARMOR) else { continue };
        if !all(spec).any(|container| container.text("name") == name) {
            faults.push(Error::invalid(&profile.path, name, "container not found"));
        }
        let text = profile.str();
        if !["", "runtime/default", "unconfined"].contains(&text) && !text.starts_with("localhost/") {
            faults.push(profile.invalid(format!("invalid AppArmor profile name: {text:?}")));
        }
    }
    faults
}

fn validate_seccomp_name(profile: &At<'_>) -> Faults {
    match profile.str() {
        "runtime/default" | "docker/default" | "unconfined" => Faults::new(),
        text => match text.strip_prefix("localhost/") {
            Some(path) => local_path(&At::new(&path.into(), profile.path.clone())),
            None => vec![profile.invalid("must be a valid seccomp profile")],
        },
    }
}

/// Where both an annotation and its field are set, they must agree.
pub(super) fn validate_annotations_match(annotations: &At<'_>, spec: &At<'_>) -> Faults {
    let mut faults = Faults::new();
    let pod = spec.child("securityContext");
    let mut agree = |what: &str, key: &str, profile: &At<'_>, shown: &At<'_>, default_names: &[&str]| {
        let annotation = annotations.child(key);
        if !annotation.is_set() || !profile.is_set() {
            return;
        }
        let text = annotation.str();
        let same = match profile.text("type") {
            "Unconfined" => text == "unconfined",
            "RuntimeDefault" => default_names.contains(&text),
            "Localhost" => match text.strip_prefix("localhost/") {
                Some(path)
                    if profile.text("localhostProfile") != path || !profile.has("localhostProfile") =>
                {
                    let why = format!("{what} profile in annotation and field must match");
                    faults.push(shown.child("localhostProfile").forbidden(&why));
                    true
                }
                found => found.is_some(),
            },
            _ => true,
        };
        if !same {
            let why = format!("{what} type in annotation and field must match");
            faults.push(shown.child("type").forbidden(&why));
        }
    };
    let seccomp = ["runtime/default", "docker/default"];
    let profile = pod.child("seccompProfile");
    agree("seccomp", SECCOMP_POD, &profile, &profile, &seccomp);
    for container in all(spec) {
        let profile = container.child("securityContext").child("seccompProfile");
        agree(
            "seccomp",
            &format!("{SECCOMP_CONTAINER}{}", container.text("name")),
            &profile,
            &profile,
            &seccomp,
        );
    }
    if spec.child("os").text("name") == "windows" {
        return faults;
    }
    for container in all(spec) {
        let shown = container.child("securityContext").child("appArmorProfile");
        let profile = if shown.is_set() { shown.clone() } else { pod.child("appArmorProfile") };
        agree(
            "apparmor",
            &format!("{APP_ARMOR}{}", container.text("name")),
            &profile,
            &shown,
            &["runtime/default"],
        );
    }
    faults
}
