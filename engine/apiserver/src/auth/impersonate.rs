//! Acting as somebody else: the `Impersonate-*` headers, and who may use them.
//!
//! There are five ways to be allowed to. The four constrained ones need two rights: to be that user
//! (`impersonate:MODE`), and to do this very request as somebody else (`impersonate-on:MODE:VERB`). The
//! old one (`impersonate`) needs the first alone. They are tried one after the other.

use std::collections::BTreeMap;

use http::HeaderMap;

use super::identity::{
    AUTHENTICATED, MASTERS, NODE_NAME, UNAUTHENTICATED, User, service_account_groups, split_node,
    split_service_account,
};
use super::rbac::{Attributes, Rules, refusal, require};
use crate::field;
use crate::names;
use crate::status::{Error, Result};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";
const NODES: &str = "system:nodes";
/// From so many on, one right to all of them is looked for first.
const MANY: usize = 4;

/// A way to be allowed to impersonate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A service account as the node that its Pod runs on.
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    /// Users that are neither nodes nor service accounts.
    UserInfo,
    Legacy,
}

const MODES: [Mode; 5] =
    [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];

/// Who the request counts as coming from, and which mode allowed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impersonated {
    pub user: User,
    pub mode: Mode,
}

/// Reads the headers and decides. `request` is the request as its sender makes it; `last` is the mode that
/// allowed this sender's last impersonation: it is tried first, and its refusal is the one that is told.
/// Nothing comes back if nobody is to be impersonated.
pub fn impersonate(
    headers: &HeaderMap,
    request: &Attributes<'_>,
    last: Option<Mode>,
    rules: &dyn Rules,
) -> Result<Option<Impersonated>> {
    let Some(wanted) = wanted(headers)? else { return Ok(None) };
    let mut refused = None;
    let rest = MODES.into_iter().filter(|mode| Some(*mode) != last);
    for mode in last.into_iter().chain(rest).filter(|mode| mode.applies(&wanted, request.user)) {
        match mode.check(&wanted, request, rules) {
            Ok(user) => return Ok(Some(Impersonated { user, mode })),
            Err(why) => refused = refused.or(Some(why)),
        }
    }
    Err(refused.unwrap_or_else(|| Error::internal("all impersonation modes failed")))
}

/// The user that the headers ask for.
fn wanted(headers: &HeaderMap) -> Result<Option<User>> {
    let first = |name: &str| text(headers.get(name).map(|value| value.as_bytes()).unwrap_or_default());
    let mut user = User { name: first(USER), uid: first(UID), ..User::default() };
    user.groups = headers.get_all(GROUP).iter().map(|value| text(value.as_bytes())).collect();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            user.extra.entry(unescape(key)).or_default().push(text(value.as_bytes()));
        }
    }
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if user.uid.is_empty() && user.groups.is_empty() && user.extra.is_empty() {
        return Ok(None);
    }
    Err(Error::bad_request(format!("requested {} without impersonating a user name", go_syntax(&user))))
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::AssociatedNode => "associated-node",
            Mode::ArbitraryNode => "arbitrary-node",
            Mode::ServiceAccount => "serviceaccount",
            Mode::UserInfo => "user-info",
            Mode::Legacy => "",
        }
    }

    /// Whether this mode is about such a user at all.
    fn applies(self, wanted: &User, requestor: &User) -> bool {
        let name_alone = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = split_node(&wanted.name);
        let account = split_service_account(&wanted.name);
        match self {
            Mode::AssociatedNode => {
                name_alone
                    && node.is_some()
                    && split_service_account(&requestor.name).is_some()
                    && requestor.extra_value(NODE_NAME) == node
            }
            Mode::ArbitraryNode => name_alone && node.is_some(),
            Mode::ServiceAccount => name_alone && account.is_some(),
            Mode::UserInfo => node.is_none() && account.is_none(),
            Mode::Legacy => true,
        }
    }

    fn check(self, wanted: &User, request: &Attributes<'_>, rules: &dyn Rules) -> Result<User> {
        let verb = match self {
            Mode::Legacy => "impersonate".to_owned(),
            _ => {
                let verb = format!("impersonate-on:{}:{}", self.name(), request.verb);
                require(&Attributes { verb: &verb, ..*request }, rules)?;
                format!("impersonate:{}", self.name())
            }
        };
        let check = Check { constrained: self != Mode::Legacy, verb: &verb, requestor: request.user, rules };
        let mut user = wanted.clone();
        check.name(self, &mut user)?;
        check.uid(&wanted.uid)?;
        check.groups(&wanted.groups)?;
        check.extra(&wanted.extra)?;
        if user.is_anonymous() {
            ensure_group(&mut user, UNAUTHENTICATED);
        } else if !user.in_group(UNAUTHENTICATED) {
            ensure_group(&mut user, AUTHENTICATED);
        }
        Ok(user)
    }
}

/// The rights that being a certain user takes, one after the other.
struct Check<'a> {
    constrained: bool,
    verb: &'a str,
    requestor: &'a User,
    rules: &'a dyn Rules,
}

impl<'a> Check<'a> {
    fn on(&self, group: &'a str, resource: &'a str) -> Attributes<'a> {
        Attributes::resource(self.requestor, self.verb, group, resource)
    }

    /// Users and groups moved to another API group with the constrained modes.
    fn group(&self) -> &'static str {
        if self.constrained { AUTHENTICATION } else { "" }
    }

    /// Nodes and service accounts bring their groups with them.
    fn name(&self, mode: Mode, user: &mut User) -> Result<()> {
        let name = user.name.clone();
        let mut wanted = Attributes { name: &name, ..self.on(self.group(), "users") };
        if let (true, Some(node)) = (self.constrained, split_node(&name)) {
            wanted.resource = "nodes";
            // Which node it is was decided by the sender's own token: the right is to any.
            wanted.name = if mode == Mode::AssociatedNode { "*" } else { node };
            user.groups = vec![NODES.to_owned()];
        }
        if let Some((namespace, account)) = split_service_account(&name) {
            wanted = Attributes { resource: "serviceaccounts", namespace, name: account, ..wanted };
            if user.groups.is_empty() {
                user.groups = service_account_groups(namespace);
            }
        }
        require(&wanted, self.rules)
    }

    fn uid(&self, uid: &str) -> Result<()> {
        if uid.is_empty() {
            return Ok(());
        }
        require(&Attributes { name: uid, ..self.on(AUTHENTICATION, "uids") }, self.rules)
    }

    fn groups(&self, groups: &[String]) -> Result<()> {
        let wanted = self.on(self.group(), "groups");
        if self.constrained {
            if groups.iter().any(String::is_empty) {
                return Err(refusal(&wanted, "impersonating the empty string group is not allowed"));
            }
            if groups.iter().any(|group| group == MASTERS) {
                let masters = Attributes { name: MASTERS, ..wanted };
                return Err(refusal(&masters, "impersonating the system:masters group is not allowed"));
            }
            if groups.len() >= MANY && require(&Attributes { name: "*", ..wanted }, self.rules).is_ok() {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|name| require(&Attributes { name, ..wanted }, self.rules))
    }

    fn extra(&self, extra: &BTreeMap<String, Vec<String>>) -> Result<()> {
        let wanted = self.on(AUTHENTICATION, "userextras");
        if self.constrained {
            if let Some(why) = extra.iter().find_map(|(key, values)| unfit_extra(key, values)) {
                return Err(refusal(&wanted, &why));
            }
            let many = extra.values().map(Vec::len).sum::<usize>() >= MANY;
            let all = Attributes { subresource: "*", name: "*", ..wanted };
            if many && require(&all, self.rules).is_ok() {
                return Ok(());
            }
        }
        let pairs = extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        pairs.into_iter().try_for_each(|(key, value)| {
            require(&Attributes { subresource: key, name: value, ..wanted }, self.rules)
        })
    }
}

/// Why the constrained modes will not set an extra value.
fn unfit_extra(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    let errors = domain_prefixed_path(key);
    if !errors.is_empty() {
        let why = field::aggregate(&errors);
        return Some(format!("impersonating an invalid key in extra is not allowed: {why}"));
    }
    values
        .iter()
        .any(String::is_empty)
        .then(|| "impersonating the empty string value in extra is not allowed".to_owned())
}

/// `example.com/path`.
fn domain_prefixed_path(key: &str) -> Vec<field::Error> {
    let path = field::Path::new("extra").child("key");
    let Some((host, rest)) = key.split_once('/').filter(|(host, rest)| !host.is_empty() && !rest.is_empty())
    else {
        let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return vec![field::Error::invalid(&path, key, why)];
    };
    let mut errors: Vec<field::Error> = names::dns1123_subdomain(host)
        .into_iter()
        .map(|why| field::Error::invalid(&path, host, why))
        .collect();
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !rest.bytes().all(allowed) {
        let why = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        errors.push(field::Error::invalid(&path, rest, why));
    }
    errors
}

fn ensure_group(user: &mut User, group: &str) {
    if !user.in_group(group) {
        user.groups.push(group.to_owned());
    }
}

/// Header values are bytes; what is not UTF-8 cannot be the name of anybody.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Undoes percent-encoding; a key that is not encoded properly is taken as it is.
fn unescape(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = tail.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let Some(byte) = digits.and_then(|two| u8::from_str_radix(two, 16).ok()) else {
            return key.to_owned();
        };
        bytes.push(byte);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).unwrap_or_else(|_| key.to_owned())
}

/// The wish as the real server prints it: a Go value.
fn go_syntax(user: &User) -> String {
    let list = |values: &[String]| {
        let all: Vec<String> = values.iter().map(|one| format!("{one:?}")).collect();
        format!("[]string{{{}}}", all.join(", "))
    };
    let groups = if user.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&user.groups) };
    let extra = if user.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let all: Vec<String> =
            user.extra.iter().map(|(key, values)| format!("{key:?}:{}", list(values))).collect();
        format!("map[string][]string{{{}}}", all.join(", "))
    };
    format!("&user.DefaultInfo{{Name:{:?}, UID:{:?}, Groups:{groups}, Extra:{extra}}}", user.name, user.uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_keys_are_unescaped() {
        for (raw, key) in [("scopes", "scopes"), ("a%2fb", "a/b"), ("100%", "100%"), ("a%zz", "a%zz")] {
            assert_eq!(unescape(raw), key);
        }
    }
}
