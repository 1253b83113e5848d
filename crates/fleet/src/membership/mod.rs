//! Who belongs to the federation: read from its objects, kept in them, and changed by commands.
//!
//! [`formation`] decides who is a member and what this cluster's part is, [`status`] what the Federation says
//! of its members, [`admission`] what nobody may do to them; all are plain functions. [`controller`] makes the
//! fleet be so. [`join()`], [`leave()`] and [`list()`] are what the commands do, and [`enlist()`] what a process
//! does that runs members itself.

pub mod admission;
mod admit;
mod clients;
pub mod controller;
mod enlist;
mod federation_store;
pub mod formation;
mod join;
mod leave;
mod list;
pub mod profile;
pub mod rbac;
mod scope;
pub mod status;
mod token;
mod wait;

use koinon_api::membership::ClusterId;
use koinon_control::call;

pub use admit::Terms;
pub use clients::clients;
pub use controller::Controller;
pub use enlist::{Recruit, enlist};
pub use federation_store::apply;
pub use formation::{Formation, Part, Role};
pub use join::{Candidate, Joined, join};
pub use leave::{Left, leave};
pub use list::{Row, list};
pub use scope::Scope;
pub use wait::{Arrival, Reach};

/// Why a command about members failed, in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{whose} did not let us {what}: {why}")]
    Asked { whose: Whose, what: &'static str, why: String },
    #[error("the federation could not be asked: {why}")]
    FederationAway { why: String },
    #[error("the cluster at {server} could not be asked: {why}")]
    Unreachable { server: String, why: String },
    #[error("the kubeconfig cannot be used: {0}")]
    Credentials(String),
    #[error("this is the federation's own API server: a member is another cluster")]
    Itself,
    #[error(
        "there is a member {name} already, and it is another cluster: choose another name, or unjoin that one first"
    )]
    NameTaken { name: ClusterId },
    #[error("this cluster is a member already, under the name {known}")]
    SameCluster { known: String },
    #[error(
        "this cluster is in another federation: unjoin it there first, or, if that federation is no more, join with \
         --take-over; it is {owner}"
    )]
    InAnother { owner: Owner },
    #[error("the federation cannot log in to the cluster with the account that was made for it: {0}")]
    Login(String),
    #[error("there is no member {name}{}", among(known))]
    Unknown { name: String, known: Vec<String> },
}

/// The federation that a cluster is in, and the name that it has there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The UID of the `kube-system` namespace of its API server.
    pub federation: String,
    pub member: Option<String>,
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.member {
            Some(member) => write!(f, "the member {member} of ")?,
            None => f.write_str("a member of ")?,
        }
        write!(f, "the federation whose kube-system has the UID {}", self.federation)
    }
}

/// Whose API server was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    Federation,
    Member(ClusterId),
}

impl std::fmt::Display for Whose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Whose::Federation => f.write_str("the federation"),
            Whose::Member(name) => write!(f, "cluster {name}"),
        }
    }
}

impl Error {
    fn asked(whose: Whose, what: &'static str, error: call::Error) -> Error {
        let why = join::said(&error);
        match (whose, error.code()) {
            (Whose::Federation, None) => Error::FederationAway { why },
            (whose, _) => Error::Asked { whose, what, why },
        }
    }

    fn unreachable(server: &str, error: call::Error) -> Error {
        Error::Unreachable { server: server.to_owned(), why: join::said(&error) }
    }
}

fn among(known: &[String]) -> String {
    match known {
        [] => ": there are none".into(),
        known => format!("; the members are {}", known.join(", ")),
    }
}
