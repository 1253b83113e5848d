//! The ports of a federated Service, of which all members have a say: the oldest first.
//!
//! Who forwards traffic joins Service and EndpointSlice by the *name* of a port. So where two members call one port
//! differently, the younger's slices are renamed; where they mean different ports by one name, the younger's port is
//! left out, or traffic for one would arrive at the other.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Port, Protocol};
use super::records::ShapePort;

/// More ports than this a federated Service does not have.
const MOST: usize = 100;

/// What was decided about ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decided {
    pub ports: Vec<ShapePort>,
    /// For each member, in order: what each of its own names is called.
    pub names: Vec<BTreeMap<String, String>>,
    /// For each member, in order: which of its ports are left out, and why.
    pub left_out: Vec<Vec<String>>,
    /// Whether members do not all offer the same.
    pub differ: bool,
}

/// Decides on ports of members in order of their age. `published` counts as older than all, while not everybody is
/// known: who is not may be the one that it came from.
pub fn decide(published: Option<&[ShapePort]>, members: &[&[Port]]) -> Decided {
    let mut table = Table::default();
    for port in published.unwrap_or_default() {
        // What was published agrees with itself.
        let _ = table.add(&port.name, port.protocol, port.port, port.app_protocol.as_deref());
    }
    let refusals: Vec<Vec<Option<String>>> = members
        .iter()
        .map(|ports| {
            ports
                .iter()
                .map(|port| {
                    table.add(&port.name, port.protocol, port.port, port.app_protocol.as_deref()).err()
                })
                .collect()
        })
        .collect();
    let mut decided = Decided::default();
    let mut placed = Vec::new();
    for (ports, refusals) in members.iter().zip(refusals) {
        let (mut of_member, mut left_out) = (Vec::new(), Vec::new());
        for (port, refusal) in ports.iter().zip(refusals) {
            // One that was refused for its name may have its place after all, under the name that a younger one gave it.
            match (table.place(port.protocol, port.port), refusal) {
                (Some(index), _) => of_member.push((port.name.clone(), index)),
                (None, why) => left_out.extend(why),
            }
        }
        placed.push(of_member);
        decided.left_out.push(left_out);
    }
    let names = table.names();
    let in_words = |of_member: &Vec<(String, usize)>| {
        of_member.iter().map(|(own, index)| (own.clone(), names[*index].clone())).collect()
    };
    decided.names = placed.iter().map(in_words).collect();
    let offered = |ports: &[Port]| -> BTreeSet<(Protocol, u16)> {
        ports.iter().map(|port| (port.protocol, port.port)).collect()
    };
    decided.differ = members.windows(2).any(|pair| offered(pair[0]) != offered(pair[1]));
    decided.ports =
        table.ports.into_iter().zip(names).map(|(port, name)| ShapePort { name, ..port }).collect();
    decided
}

/// Ports in the order in which they were first named.
#[derive(Default)]
struct Table {
    ports: Vec<ShapePort>,
}

impl Table {
    fn place(&self, protocol: Protocol, port: u16) -> Option<usize> {
        self.ports.iter().position(|known| (known.protocol, known.port) == (protocol, port))
    }

    /// Gives a port a place, or says why it has none.
    fn add(&mut self, name: &str, protocol: Protocol, port: u16, app: Option<&str>) -> Result<(), String> {
        if self.place(protocol, port).is_some() {
            return Ok(());
        }
        if let Some(other) = self.ports.iter().find(|known| !name.is_empty() && known.name == name) {
            return Err(format!(
                "port {name} is {}/{port} here and {}/{} in an older member: it is left out here",
                protocol.as_str(),
                other.protocol.as_str(),
                other.port,
            ));
        }
        if self.ports.len() == MOST {
            return Err(format!("{}/{port} is one port too many: it is left out here", protocol.as_str()));
        }
        self.ports.push(ShapePort {
            name: name.to_owned(),
            protocol,
            port,
            app_protocol: app.map(str::to_owned),
        });
        Ok(())
    }

    /// What ports are called. Only a single one may go without a name.
    fn names(&self) -> Vec<String> {
        if self.ports.len() < 2 {
            return self.ports.iter().map(|port| port.name.clone()).collect();
        }
        let taken: BTreeSet<&str> = self.ports.iter().map(|port| port.name.as_str()).collect();
        let named = self.ports.iter().map(|port| {
            if !port.name.is_empty() {
                return port.name.clone();
            }
            let mut name = format!("p{}-{}", port.port, port.protocol.as_str().to_lowercase());
            while taken.contains(name.as_str()) {
                name.push('x');
            }
            name
        });
        named.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ports as `name:number/protocol`.
    fn ports(text: &str) -> Vec<Port> {
        let read = |word: &str| {
            let (name, rest) = word.split_once(':').unwrap();
            let (number, protocol) = rest.split_once('/').unwrap_or((rest, "TCP"));
            Port {
                name: name.into(),
                protocol: Protocol::read(Some(protocol)).unwrap(),
                port: number.parse().unwrap(),
                node_port: None,
                app_protocol: None,
            }
        };
        text.split_whitespace().map(read).collect()
    }

    fn check(members: &[&str], wanted: &str, renamed: &[&str], left_out: &[usize]) {
        let members: Vec<Vec<Port>> = members.iter().map(|text| ports(text)).collect();
        let members: Vec<&[Port]> = members.iter().map(Vec::as_slice).collect();
        let decided = decide(None, &members);
        let found: Vec<_> = decided
            .ports
            .iter()
            .map(|port| match port.protocol {
                Protocol::Tcp => format!("{}:{}", port.name, port.port),
                other => format!("{}:{}/{}", port.name, port.port, other.as_str()),
            })
            .collect();
        assert_eq!(found.join(" "), wanted);
        let names: Vec<_> = decided
            .names
            .iter()
            .map(|names| {
                names.iter().map(|(own, name)| format!("{own}={name}")).collect::<Vec<_>>().join(" ")
            })
            .collect();
        assert_eq!(names, renamed);
        assert_eq!(decided.left_out.iter().map(Vec::len).collect::<Vec<_>>(), left_out);
    }

    #[test]
    fn one_port_is_one_port_whatever_it_is_called() {
        check(&["http:80", "web:80"], "http:80", &["http=http", "web=http"], &[0, 0]);
        check(&[":80", "web:80"], ":80", &["=", "web="], &[0, 0]);
    }

    #[test]
    fn one_name_for_two_ports_is_a_conflict_and_the_older_has_it() {
        check(&["http:80", "http:8080"], "http:80", &["http=http", ""], &[0, 1]);
        check(&["dns:53", "dns:53/UDP tcp:53"], "dns:53", &["dns=dns", "tcp=dns"], &[0, 1]);
    }

    #[test]
    fn what_is_new_is_added_and_unnamed_ports_get_names() {
        check(&["http:80", "https:443"], "http:80 https:443", &["http=http", "https=https"], &[0, 0]);
        check(&[":80", ":80/UDP"], "p80-tcp:80 p80-udp:80/UDP", &["=p80-tcp", "=p80-udp"], &[0, 0]);
        check(&[":80", "p80-tcp:81"], "p80-tcpx:80 p80-tcp:81", &["=p80-tcpx", "p80-tcp=p80-tcp"], &[0, 0]);
    }

    #[test]
    fn what_was_published_is_oldest_while_somebody_is_not_known() {
        let published =
            [ShapePort { name: "http".into(), protocol: Protocol::Tcp, port: 80, app_protocol: None }];
        let decided = decide(Some(&published), &[&ports("web:80 more:81")]);
        assert_eq!(decided.ports.len(), 2);
        assert_eq!(decided.names[0]["web"], "http");
    }
}
