//! The functions that expressions may call: those of CEL and of the libraries that Kubernetes adds.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;
use std::sync::{Arc, LazyLock};

use super::types::{OPTIONAL, Type};

/// One form of a function.
#[derive(Debug)]
pub(super) struct Overload {
    /// Whether it is called on its first argument.
    pub(super) member: bool,
    pub(super) args: Vec<Type>,
    pub(super) result: Type,
    /// How many type variables it has; they are numbered from zero.
    pub(super) variables: usize,
}

/// The forms of a function, if there is one of that name.
pub(super) fn function(name: &str) -> Option<&'static [Overload]> {
    FUNCTIONS.get(name).map(Vec::as_slice)
}

/// The types that can be named in expressions.
pub(super) fn named_type(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "int" => Type::Int,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "string" => Type::String,
        "type" => Type::Meta(Arc::new(Type::Dyn)),
        "uint" => Type::Uint,
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "optional_type" => Type::optional(Type::Dyn),
        "kubernetes.URL" => Type::Opaque(URL, Vec::new()),
        "kubernetes.Quantity" => Type::Opaque(QUANTITY, Vec::new()),
        "net.IP" => Type::Opaque(IP, Vec::new()),
        "net.CIDR" => Type::Opaque(CIDR, Vec::new()),
        "kubernetes.Semver" => Type::Opaque(SEMVER, Vec::new()),
        "kubernetes.NamedFormat" => Type::Opaque(FORMAT, Vec::new()),
        name => {
            // Only admission policies have an authorizer, but its functions are known everywhere.
            let name = AUTHORIZATION.iter().find(|known| **known == name)?;
            Type::Opaque(name, Vec::new())
        }
    })
}

pub(super) const URL: &str = "kubernetes.URL";
pub(super) const QUANTITY: &str = "kubernetes.Quantity";
pub(super) const IP: &str = "net.IP";
pub(super) const CIDR: &str = "net.CIDR";
pub(super) const SEMVER: &str = "kubernetes.Semver";
pub(super) const FORMAT: &str = "kubernetes.NamedFormat";

const AUTHORIZATION: [&str; 5] = [
    "kubernetes.authorization.Authorizer",
    "kubernetes.authorization.PathCheck",
    "kubernetes.authorization.GroupCheck",
    "kubernetes.authorization.ResourceCheck",
    "kubernetes.authorization.Decision",
];

/// One function in each line: `.name` is called on its first argument. Single capitals are variables.
const DECLARATIONS: &str = include_str!("declarations.txt");

static FUNCTIONS: LazyLock<BTreeMap<&str, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: BTreeMap<&str, Vec<Overload>> = BTreeMap::new();
    for line in DECLARATIONS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some((name, signature)) = line.split_once(' ') else { continue };
        let (member, name) = name.strip_prefix('.').map_or((false, name), |name| (true, name));
        let mut reader = Reader { rest: signature.chars().peekable(), variables: Vec::new() };
        let args = reader.params();
        let result = reader.one();
        let variables = reader.variables.len();
        functions.entry(name).or_default().push(Overload { member, args, result, variables });
    }
    functions
});

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    variables: Vec<String>,
}

impl Reader<'_> {
    fn params(&mut self) -> Vec<Type> {
        self.rest.next();
        let mut found = Vec::new();
        while self.rest.peek().is_some_and(|letter| *letter != ')') {
            found.push(self.one());
            while self.rest.peek().is_some_and(|letter| matches!(letter, ',' | ' ')) {
                self.rest.next();
            }
        }
        self.rest.next();
        found
    }

    fn one(&mut self) -> Type {
        let mut name = String::new();
        while let Some(letter) =
            self.rest.next_if(|letter| letter.is_alphanumeric() || " .".contains(*letter))
        {
            name.push(letter);
        }
        let params = if self.rest.peek() == Some(&'(') { self.params() } else { Vec::new() };
        let mut params = params.into_iter();
        let mut param = || params.next().unwrap_or(Type::Dyn);
        match name.trim() {
            "dyn" => Type::Dyn,
            "duration" => Type::Duration,
            "timestamp" => Type::Timestamp,
            "null" => Type::Null,
            "list" => Type::list(param()),
            "map" => {
                let key = param();
                Type::map(key, param())
            }
            "optional" => Type::Opaque(OPTIONAL, vec![param()]),
            "type" => Type::Meta(Arc::new(param())),
            variable if variable.len() == 1 => {
                let known = self.variables.iter().position(|known| known == variable);
                let index = known.unwrap_or_else(|| {
                    self.variables.push(variable.to_owned());
                    self.variables.len() - 1
                });
                Type::Var(index)
            }
            other => named_type(other).unwrap_or(Type::Error),
        }
    }
}

/// Replaces the variables of a declaration by those of the expression that uses it.
pub(super) fn instantiate(of: &Type, variables: &[Type]) -> Type {
    let go = |of: &Type| instantiate(of, variables);
    match of {
        Type::Var(index) => variables[*index].clone(),
        Type::List(item) => Type::list(go(item)),
        Type::Map(key, value) => Type::map(go(key), go(value)),
        Type::Opaque(name, params) => Type::Opaque(name, params.iter().map(go).collect()),
        Type::Meta(of) => Type::Meta(Arc::new(go(of))),
        plain => plain.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declared_type_is_known() {
        for (name, overloads) in FUNCTIONS.iter() {
            for overload in overloads {
                let wrong = overload
                    .args
                    .iter()
                    .chain([&overload.result])
                    .any(|of| of.to_string().contains("!error!"));
                assert!(!wrong, "{name}: {overload:?}");
            }
        }
    }
}
