//! What is kept of objects: compact, checked, and never the object.

mod native;
mod node;
mod own;
mod service;
mod slice;

pub use node::Node;
pub(crate) use own::digest;
pub use own::{Manager, OwnSlice};
pub use service::{Occupant, Published, Shape, ShapePort};
pub(crate) use service::{affinity, created, is_made_by_us, said, service_ports, shape};
pub use slice::SERVICE_NAME;
pub use slice::SourceSlice;

use k8s_openapi::api::core::v1::Namespace;
use koinon_api::network::InterfaceAddress;
use koinon_fleet::Record;

use super::model::{Address, Family};

/// That a namespace is there and stays.
#[derive(Debug, PartialEq)]
pub struct Alive;

impl Record for Alive {
    type Object = Namespace;

    fn fold(namespace: &Namespace) -> Option<Alive> {
        namespace.metadata.deletion_timestamp.is_none().then_some(Alive)
    }
}

/// Of all addresses of one interface those to use from elsewhere: of each family the external ones, else the
/// internal ones.
pub(crate) fn reachable(addresses: &[InterfaceAddress]) -> Vec<Address> {
    preferring(["ExternalIP", "InternalIP"], addresses)
}

/// Of all addresses of one interface, and of each family, those of the first kind that there are.
pub(crate) fn preferring(kinds: [&str; 2], addresses: &[InterfaceAddress]) -> Vec<Address> {
    let of = |kind: &str, family: Family| -> Vec<Address> {
        let of_kind = addresses.iter().filter(|one| one.address_type == kind);
        of_kind.filter_map(|one| Address::ip(&one.address).ok()).filter(|one| one.family == family).collect()
    };
    let by_family = [Family::V4, Family::V6].map(|family| {
        let first = of(kinds[0], family);
        if first.is_empty() { of(kinds[1], family) } else { first }
    });
    by_family.concat()
}
