//! What a machine's tags ask for: `NAME`, `NAME:PORT` or several of them, and ports in a tag of their own.

use std::collections::BTreeMap;

use koinon_api::names::network::{VM_PORTS_TAG, VM_TAG};

use crate::services::address::{is_service_name, shown};
use crate::services::joining::value;
use crate::services::mcs::is_behind_an_import;
use crate::services::model::{Flaw, Protocol};
use crate::services::packing::short;

/// The longest name that a Service can have.
const LONGEST: usize = 63;

/// The Services that a machine belongs to, each with its ports.
pub type Asks = BTreeMap<String, Vec<(Protocol, u16)>>;

/// Reads the tags; without a name the Service is called after `id`, the machine itself.
pub fn read(tags: &BTreeMap<String, String>, id: &str, flaws: &mut Vec<Flaw>) -> Asks {
    let mut asks = Asks::new();
    let Some(text) = value(VM_TAG, tags, flaws) else { return asks };
    let common = value(VM_PORTS_TAG, tags, flaws).map(|text| ports(text, flaws)).unwrap_or_default();
    for word in text.split(',') {
        let (name, port) = match word.trim().split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (word.trim(), None),
        };
        let name = if name.is_empty() { derived(id) } else { name.to_owned() };
        if !is_service_name(&name) || is_behind_an_import(&name) {
            let message = format!("{} cannot be the name of a Service", shown(&name));
            flaws.push(Flaw { reason: "InvalidServiceName", message });
            continue;
        }
        let of_service = asks.entry(name).or_default();
        of_service.extend(port.map(|port| ports(port, flaws)).unwrap_or_default());
        of_service.extend(&common);
        of_service.sort();
        of_service.dedup();
    }
    asks
}

/// Ports such as `80`, `53-udp` or `53/udp`, one after the other. Clouds allow few characters in tags.
fn ports(text: &str, flaws: &mut Vec<Flaw>) -> Vec<(Protocol, u16)> {
    let words = text.split(['.', '_', ',', ' ']).filter(|word| !word.is_empty());
    let read = words.filter_map(|word| {
        let (number, protocol) = word.split_once(['-', '/']).unwrap_or((word, "tcp"));
        let protocol = Protocol::read(Some(&protocol.to_ascii_uppercase()));
        let port = protocol.zip(number.parse().ok().filter(|number| *number > 0));
        if port.is_none() {
            let message = format!("{} is no port: write it like 80 or 53-udp", shown(word));
            flaws.push(Flaw { reason: "InvalidPort", message });
        }
        port
    });
    read.collect()
}

/// A name for a Service from whatever a cloud calls its machine.
fn derived(id: &str) -> String {
    let lower = id.to_ascii_lowercase();
    let mut name: String =
        lower.chars().map(|one| if one.is_ascii_alphanumeric() { one } else { '-' }).collect();
    name = name.trim_matches('-').to_owned();
    if !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        name = format!("vm-{name}").trim_end_matches('-').to_owned();
    }
    if name.len() > LONGEST {
        let end = &short(&[id])[..8];
        name.truncate(LONGEST - end.len() - 1);
        name = format!("{}-{end}", name.trim_end_matches('-'));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tags: &[(&str, &str)], id: &str, wanted: &str) {
        let tags = tags.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let mut flaws = Vec::new();
        let asks = read(&tags, id, &mut flaws);
        let shown = |(name, ports): (&String, &Vec<(Protocol, u16)>)| {
            let ports: Vec<_> =
                ports.iter().map(|(protocol, port)| format!("{port}{}", &protocol.as_str()[..1])).collect();
            format!("{name}[{}]", ports.join(" "))
        };
        let mut words: Vec<String> = asks.iter().map(shown).collect();
        words.extend(flaws.iter().map(|flaw| flaw.reason.to_owned()));
        assert_eq!(words.join(" "), wanted);
    }

    const TAG: &str = "svc.antreaplus.vmware.com";

    #[test]
    fn n18_a_tag_names_services_and_maybe_ports() {
        check(&[(TAG, "web")], "i-1", "web[]");
        check(&[(TAG, "web:80,web:443,db:5432")], "i-1", "db[5432T] web[80T 443T]");
        check(&[(TAG, "web"), ("ports.svc.antreaplus.vmware.com", "80.53-udp")], "i-1", "web[80T 53U]");
        check(&[("other", "web")], "i-1", "");
        check(&[(TAG, "Not Good")], "i-1", "InvalidServiceName");
        check(&[(TAG, "web:0")], "i-1", "web[] InvalidPort");
    }

    #[test]
    fn n19_without_a_name_it_is_called_after_the_machine() {
        check(&[(TAG, "")], "i-0c2ea1b2", "i-0c2ea1b2[]");
        check(&[(TAG, ":80")], "i-0c2ea1b2", "i-0c2ea1b2[80T]");
        check(&[(TAG, "")], "/subscriptions/1/VM_Name", "subscriptions-1-vm-name[]");
        check(&[(TAG, "")], "42", "vm-42[]");
        check(&[(TAG, "")], "", "vm[]");
        let (one, other) =
            (derived(&format!("{}1", "x".repeat(80))), derived(&format!("{}2", "x".repeat(80))));
        assert!(one.len() <= 63 && is_service_name(&one) && one != other);
    }
}
