//! What a token Secret lacks.

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::ResourceExt as _;

pub(super) const TYPE: &str = "kubernetes.io/service-account-token";
pub(super) const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
pub(super) const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
pub(super) const TOKEN: &str = "token";
pub(super) const CERTIFICATES: &str = "ca.crt";
pub(super) const NAMESPACE: &str = "namespace";

/// What to do about a token Secret.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Nothing,
    /// Its account is gone, or another one has its name now: the token would be good for nothing.
    Delete,
    Fill(Lacks),
}

/// The parts that are missing or outdated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lacks {
    pub(super) token: bool,
    pub(super) certificates: bool,
    pub(super) namespace: bool,
}

/// The account that a Secret is for, by name.
pub(super) fn account_of(secret: &Secret) -> Option<&str> {
    let name = secret.annotations().get(ACCOUNT_NAME)?;
    (secret.type_.as_deref() == Some(TYPE) && !name.is_empty()).then_some(name)
}

/// Whether this is the account that a Secret is for; a Secret that names no uid takes whoever has the name.
pub(super) fn is_for(secret: &Secret, account: &ServiceAccount) -> bool {
    let uid = secret.annotations().get(ACCOUNT_UID).filter(|uid| !uid.is_empty());
    account_of(secret) == account.metadata.name.as_deref()
        && secret.metadata.namespace == account.metadata.namespace
        && uid.is_none_or(|uid| Some(uid) == account.metadata.uid.as_ref())
}

/// `account` is the one with the name that the Secret gives, if there is any.
pub(super) fn plan(secret: &Secret, account: Option<&ServiceAccount>, authority: &str) -> Step {
    if account_of(secret).is_none() || secret.metadata.deletion_timestamp.is_some() {
        return Step::Nothing;
    }
    if !account.is_some_and(|account| is_for(secret, account)) {
        return Step::Delete;
    }
    let part = |key: &str| {
        secret.data.as_ref().and_then(|data| data.get(key)).map(|part| part.0.as_slice()).unwrap_or_default()
    };
    let lacks = Lacks {
        token: part(TOKEN).is_empty(),
        certificates: !authority.is_empty() && part(CERTIFICATES) != authority.as_bytes(),
        namespace: part(NAMESPACE).is_empty(),
    };
    if lacks == (Lacks { token: false, certificates: false, namespace: false }) {
        return Step::Nothing;
    }
    Step::Fill(lacks)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::json;

    use super::*;

    fn secret(uid: &str, parts: &[(&str, &str)]) -> Secret {
        let mut secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": "s", "namespace": "ns", "annotations": {ACCOUNT_NAME: "robot", ACCOUNT_UID: uid}},
            "type": TYPE,
        }))
        .unwrap();
        let part = |(key, value): &(&str, &str)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec()));
        secret.data = Some(parts.iter().map(part).collect());
        secret
    }

    fn account(uid: &str) -> ServiceAccount {
        let account = json!({"metadata": {"name": "robot", "namespace": "ns", "uid": uid}});
        serde_json::from_value(account).unwrap()
    }

    #[test]
    fn a_secret_is_filled_once_and_goes_with_its_account() {
        let full = [(TOKEN, "t"), (CERTIFICATES, "pem"), (NAMESPACE, "ns")];
        let all = Lacks { token: true, certificates: true, namespace: true };
        let certificates = Lacks { token: false, certificates: true, namespace: false };
        let mut opaque = secret("", &[]);
        opaque.type_ = Some("Opaque".into());
        let cases = [
            (secret("", &[]), Some(account("1")), Step::Fill(all)),
            (secret("1", &full), Some(account("1")), Step::Nothing),
            (
                secret("1", &[full[0], (CERTIFICATES, "old"), full[2]]),
                Some(account("1")),
                Step::Fill(certificates),
            ),
            (secret("1", &full), Some(account("2")), Step::Delete),
            (secret("", &full), None, Step::Delete),
            (opaque, None, Step::Nothing),
        ];
        for (secret, account, expected) in cases {
            assert_eq!(plan(&secret, account.as_ref(), "pem"), expected, "{secret:?}");
        }
    }
}
