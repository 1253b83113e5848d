//! The Pod Security Standards: how far a pod may reach beyond itself, in the rules and the words of stock Kubernetes (`latest`).
//!
//! Pure functions over a pod's spec as JSON. The API server's admission enforces them, and the workloads controller holds templates
//! to the level of the federation's namespace before it places them.

use std::collections::BTreeSet;

use serde_json::Value;

/// The label on a namespace: the level that pods in it are held to.
pub const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
/// The label on a namespace: of which release that level is.
pub const ENFORCE_VERSION: &str = "pod-security.kubernetes.io/enforce-version";

static NULL: Value = Value::Null;

/// A rule of the standards: what is wrong with a pod, as a reason and a detail.
type Rule = fn(&Value) -> Option<(String, String)>;

/// The rules of the baseline, in the order they are told, and whether the stricter standard has its own.
const BASELINE: [(Rule, bool); 12] = [
    (app_armor, false),
    (added_capabilities, true),
    (host_namespaces, false),
    (host_paths, true),
    (host_ports, false),
    (probe_hosts, false),
    (privileged, false),
    (proc_mount, false),
    (se_linux, false),
    (seccomp, true),
    (sysctls, false),
    (host_process, false),
];

const RESTRICTED: [Rule; 6] = [
    privilege_escalation,
    dropped_capabilities,
    volume_types,
    run_as_non_root,
    run_as_user,
    required_seccomp,
];

/// What a standard (`baseline` or `restricted`) has against a pod with this spec: reasons with their details. Any other level has
/// nothing against any pod.
pub fn violations(level: &str, spec: &Value) -> Vec<(String, String)> {
    match level {
        "baseline" => BASELINE.iter().filter_map(|(rule, _)| rule(spec)).collect(),
        "restricted" => BASELINE
            .iter()
            .filter(|(_, replaced)| !replaced)
            .map(|(rule, _)| *rule)
            .chain(RESTRICTED)
            .filter_map(|rule| rule(spec))
            .collect(),
        _ => Vec::new(),
    }
}

/// The reasons with their details, as one sentence.
pub fn detailed(found: Vec<(String, String)>) -> String {
    let told: Vec<String> =
        found.into_iter().map(|(reason, detail)| format!("{reason} ({detail})")).collect();
    told.join(", ")
}

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|key| list(get(spec, &[key])))
}

fn context<'a>(holder: &'a Value, path: &[&str]) -> &'a Value {
    get(get(holder, &["securityContext"]), path)
}

fn quoted<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("\"{item}\"")).collect();
    items.join(", ")
}

fn plural<'a>(one: &'a str, many: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { many }
}

/// `container "a"`, `containers "a", "b"`.
fn named(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names.iter().copied()))
}

/// The names of containers that something is true of.
fn bad(spec: &Value, is_bad: impl Fn(&Value) -> bool) -> Vec<&str> {
    containers(spec).filter(|container| is_bad(container)).map(|container| text(container, "name")).collect()
}

/// The pod and the containers that something is true of, as who did it.
fn setters(spec: &Value, is_bad: impl Fn(&Value) -> bool) -> Vec<String> {
    let mut setters = Vec::new();
    if is_bad(spec) {
        setters.push("pod".to_owned());
    }
    let names = bad(spec, is_bad);
    if !names.is_empty() {
        setters.push(named(&names));
    }
    setters
}

fn told(reason: &str, detail: String) -> Option<(String, String)> {
    Some((reason.to_owned(), detail))
}

fn is_windows(spec: &Value) -> bool {
    text(get(spec, &["os"]), "name") == "windows"
}

fn has_user_namespace(spec: &Value) -> bool {
    spec["hostUsers"].as_bool() == Some(false)
}

fn app_armor(spec: &Value) -> Option<(String, String)> {
    let kind = |holder: &Value| context(holder, &["appArmorProfile", "type"]).as_str().map(str::to_owned);
    let wrong = |holder: &Value| {
        kind(holder).is_some_and(|kind| !matches!(kind.as_str(), "RuntimeDefault" | "Localhost"))
    };
    let setters = setters(spec, wrong);
    let values: BTreeSet<String> = std::iter::once(spec)
        .chain(containers(spec))
        .filter(|holder| wrong(holder))
        .filter_map(kind)
        .collect();
    if setters.is_empty() {
        return None;
    }
    let reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len());
    let values = quoted(values.iter().map(String::as_str));
    told(reason, format!("{} must not set AppArmor profile type to {values}", setters.join(" and ")))
}

fn added_capabilities(spec: &Value) -> Option<(String, String)> {
    const ALLOWED: [&str; 13] = [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ];
    let (names, added) = adding(spec, &ALLOWED);
    if names.is_empty() {
        return None;
    }
    let added = quoted(added);
    told(
        "non-default capabilities",
        format!("{} must not include {added} in securityContext.capabilities.add", named(&names)),
    )
}

/// The containers that add capabilities which are not `allowed`, and these.
fn adding<'a>(spec: &'a Value, allowed: &[&str]) -> (Vec<&'a str>, BTreeSet<&'a str>) {
    let added = |container: &'a Value| -> Vec<&'a str> {
        let added = list(context(container, &["capabilities", "add"])).iter().filter_map(Value::as_str);
        added.filter(|one| !allowed.contains(one)).collect()
    };
    let names = containers(spec).filter(|one| !added(one).is_empty()).map(|one| text(one, "name")).collect();
    (names, containers(spec).flat_map(added).collect())
}

fn host_namespaces(spec: &Value) -> Option<(String, String)> {
    let shared: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|key| spec[*key].as_bool() == Some(true))
        .map(|key| format!("{key}=true"))
        .collect();
    if shared.is_empty() { None } else { told("host namespaces", shared.join(", ")) }
}

fn host_paths(spec: &Value) -> Option<(String, String)> {
    let volumes = list(get(spec, &["volumes"])).iter().filter(|volume| volume.get("hostPath").is_some());
    let names: Vec<&str> = volumes.map(|volume| text(volume, "name")).collect();
    if names.is_empty() {
        return None;
    }
    told("hostPath volumes", format!("{} {}", plural("volume", "volumes", names.len()), quoted(names)))
}

fn host_ports(spec: &Value) -> Option<(String, String)> {
    let ports = |container: &Value| -> Vec<i64> {
        let ports = list(get(container, &["ports"])).iter().filter_map(|port| port["hostPort"].as_i64());
        ports.filter(|port| *port != 0).collect()
    };
    let names = bad(spec, |container| !ports(container).is_empty());
    if names.is_empty() {
        return None;
    }
    let used: BTreeSet<String> = containers(spec).flat_map(ports).map(|port| port.to_string()).collect();
    let what = plural("hostPort", "hostPorts", used.len());
    let used: Vec<String> = used.into_iter().collect();
    let verb = plural("uses", "use", names.len());
    told("hostPort", format!("{} {verb} {what} {}", named(&names), used.join(", ")))
}

fn probe_hosts(spec: &Value) -> Option<(String, String)> {
    const HANDLERS: [&[&str]; 5] = [
        &["livenessProbe"],
        &["readinessProbe"],
        &["startupProbe"],
        &["lifecycle", "postStart"],
        &["lifecycle", "preStop"],
    ];
    fn hosts(container: &Value) -> Vec<&str> {
        let handlers = HANDLERS.iter().map(|path| get(container, path));
        let hosts =
            handlers.flat_map(|one| ["httpGet", "tcpSocket"].map(|kind| text(get(one, &[kind]), "host")));
        hosts.filter(|host| !host.is_empty()).collect()
    }
    let names: BTreeSet<&str> = bad(spec, |container| !hosts(container).is_empty()).into_iter().collect();
    if names.is_empty() {
        return None;
    }
    let used: BTreeSet<&str> = containers(spec).flat_map(hosts).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let verb = plural("uses", "use", names.len());
    let what = plural("probe or lifecycle host", "probe or lifecycle hosts", used.len());
    told("probe or lifecycle host", format!("{} {verb} {what} {}", named(&names), quoted(used)))
}

fn privileged(spec: &Value) -> Option<(String, String)> {
    let names = bad(spec, |container| context(container, &["privileged"]).as_bool() == Some(true));
    if names.is_empty() {
        return None;
    }
    told("privileged", format!("{} must not set securityContext.privileged=true", named(&names)))
}

fn proc_mount(spec: &Value) -> Option<(String, String)> {
    if has_user_namespace(spec) {
        return None;
    }
    let kind = |container: &Value| context(container, &["procMount"]).as_str().map(str::to_owned);
    let wrong = |container: &Value| kind(container).is_some_and(|kind| kind != "Default");
    let names = bad(spec, wrong);
    if names.is_empty() {
        return None;
    }
    let values: BTreeSet<String> = containers(spec).filter(|one| wrong(one)).filter_map(kind).collect();
    let values = quoted(values.iter().map(String::as_str));
    told("procMount", format!("{} must not set securityContext.procMount to {values}", named(&names)))
}

fn se_linux(spec: &Value) -> Option<(String, String)> {
    const ALLOWED: [&str; 5] =
        ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];
    fn options<'a>(holder: &'a Value, key: &str) -> &'a str {
        text(context(holder, &["seLinuxOptions"]), key)
    }
    let set = |holder: &Value, key: &str| !options(holder, key).is_empty();
    let setters = setters(spec, |holder| {
        !ALLOWED.contains(&options(holder, "type")) || set(holder, "user") || set(holder, "role")
    });
    if setters.is_empty() {
        return None;
    }
    let all = || std::iter::once(spec).chain(containers(spec));
    let types: BTreeSet<&str> =
        all().map(|one| options(one, "type")).filter(|one| !ALLOWED.contains(one)).collect();
    let mut data = Vec::new();
    if !types.is_empty() {
        data.push(format!("{} {}", plural("type", "types", types.len()), quoted(types)));
    }
    for key in ["user", "role"] {
        if all().any(|holder| set(holder, key)) {
            data.push(format!("{key} may not be set"));
        }
    }
    let detail = format!(
        "{} set forbidden securityContext.seLinuxOptions: {}",
        setters.join(" and "),
        data.join("; ")
    );
    told("seLinuxOptions", detail)
}

fn seccomp_type(holder: &Value) -> Option<&str> {
    let profile = context(holder, &["seccompProfile"]);
    (!profile.is_null()).then(|| text(profile, "type"))
}

fn is_bad_seccomp(holder: &Value) -> bool {
    seccomp_type(holder).is_some_and(|kind| !matches!(kind, "RuntimeDefault" | "Localhost"))
}

fn seccomp(spec: &Value) -> Option<(String, String)> {
    let setters = setters(spec, is_bad_seccomp);
    if setters.is_empty() {
        return None;
    }
    let holders = std::iter::once(spec).chain(containers(spec)).filter(|holder| is_bad_seccomp(holder));
    let values: BTreeSet<&str> = holders.filter_map(seccomp_type).collect();
    let setters = setters.join(" and ");
    told(
        "seccompProfile",
        format!("{setters} must not set securityContext.seccompProfile.type to {}", quoted(values)),
    )
}

fn sysctls(spec: &Value) -> Option<(String, String)> {
    const ALLOWED: [&str; 12] = [
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_wmem",
    ];
    let names = list(context(spec, &["sysctls"])).iter().map(|sysctl| text(sysctl, "name"));
    let forbidden: Vec<&str> = names.filter(|name| !ALLOWED.contains(name)).collect();
    if forbidden.is_empty() { None } else { told("forbidden sysctls", forbidden.join(", ")) }
}

fn host_process(spec: &Value) -> Option<(String, String)> {
    let setters =
        setters(spec, |holder| context(holder, &["windowsOptions", "hostProcess"]).as_bool() == Some(true));
    if setters.is_empty() {
        return None;
    }
    let setters = setters.join(" and ");
    told("hostProcess", format!("{setters} must not set securityContext.windowsOptions.hostProcess=true"))
}

fn privilege_escalation(spec: &Value) -> Option<(String, String)> {
    let names = bad(spec, |one| context(one, &["allowPrivilegeEscalation"]).as_bool() != Some(false));
    if names.is_empty() || is_windows(spec) {
        return None;
    }
    let detail = format!("{} must set securityContext.allowPrivilegeEscalation=false", named(&names));
    told("allowPrivilegeEscalation != false", detail)
}

fn dropped_capabilities(spec: &Value) -> Option<(String, String)> {
    if is_windows(spec) {
        return None;
    }
    let keeping =
        bad(spec, |one| !list(context(one, &["capabilities", "drop"])).iter().any(|cap| cap == "ALL"));
    let (names, added) = adding(spec, &["NET_BIND_SERVICE"]);
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", named(&keeping)));
    }
    if !names.is_empty() {
        let added = quoted(added);
        details
            .push(format!("{} must not include {added} in securityContext.capabilities.add", named(&names)));
    }
    if details.is_empty() { None } else { told("unrestricted capabilities", details.join("; ")) }
}

fn volume_types(spec: &Value) -> Option<(String, String)> {
    const ALLOWED: [&str; 9] = [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    let kind = |volume: &Value| -> String {
        let kinds = volume
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, value)| *key != "name" && !value.is_null());
        kinds.map(|(key, _)| key.clone()).next().unwrap_or_else(|| "unknown".to_owned())
    };
    let volumes: Vec<&Value> = list(get(spec, &["volumes"]))
        .iter()
        .filter(|volume| !ALLOWED.contains(&kind(volume).as_str()))
        .collect();
    if volumes.is_empty() {
        return None;
    }
    let kinds: BTreeSet<String> = volumes.iter().map(|volume| kind(volume)).collect();
    let count = volumes.len();
    let detail = format!(
        "{} {} {} {} {}",
        plural("volume", "volumes", count),
        quoted(volumes.iter().map(|volume| text(volume, "name"))),
        plural("uses", "use", count),
        plural("restricted volume type", "restricted volume types", kinds.len()),
        quoted(kinds.iter().map(String::as_str)),
    );
    told("restricted volume types", detail)
}

fn run_as_non_root(spec: &Value) -> Option<(String, String)> {
    if has_user_namespace(spec) {
        return None;
    }
    let said = |holder: &Value| context(holder, &["runAsNonRoot"]).as_bool();
    let setters = setters(spec, |holder| said(holder) == Some(false));
    let reason = "runAsNonRoot != true";
    if !setters.is_empty() {
        let setters = setters.join(" and ");
        return told(reason, format!("{setters} must not set securityContext.runAsNonRoot=false"));
    }
    let silent = bad(spec, |container| said(container).is_none());
    if silent.is_empty() || said(spec) == Some(true) {
        return None;
    }
    told(reason, format!("pod or {} must set securityContext.runAsNonRoot=true", named(&silent)))
}

fn run_as_user(spec: &Value) -> Option<(String, String)> {
    if has_user_namespace(spec) {
        return None;
    }
    let setters = setters(spec, |holder| context(holder, &["runAsUser"]).as_i64() == Some(0));
    if setters.is_empty() {
        return None;
    }
    told("runAsUser=0", format!("{} must not set runAsUser=0", setters.join(" and ")))
}

fn required_seccomp(spec: &Value) -> Option<(String, String)> {
    if is_windows(spec) {
        return None;
    }
    if let Some(found) = seccomp(spec) {
        return Some(found);
    }
    let silent = bad(spec, |container| seccomp_type(container).is_none());
    if silent.is_empty() || seccomp_type(spec).is_some() {
        return None;
    }
    let detail = format!(
        "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
        named(&silent)
    );
    told("seccompProfile", detail)
}

/// What is at a path below a value; `null` if nothing is.
fn get<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(value, |value, name| value.get(name).unwrap_or(&NULL))
}

/// The text of a field, empty if there is none.
fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a list; none of what is no list.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_level_has_its_rules() {
        let plain = json!({"containers": [{"name": "web", "image": "web:1"}]});
        let mut reaching = plain.clone();
        reaching["hostNetwork"] = true.into();
        assert_eq!(violations("privileged", &reaching), []);
        assert_eq!(violations("baseline", &plain), []);
        assert_eq!(detailed(violations("baseline", &reaching)), "host namespaces (hostNetwork=true)");
        let told = detailed(violations("restricted", &plain));
        assert!(told.starts_with("allowPrivilegeEscalation != false (container \"web\" must set"), "{told}");
    }
}
