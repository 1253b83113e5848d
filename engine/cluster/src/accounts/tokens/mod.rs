//! Secrets that hold a token of a service account: filled, kept up to date, and gone with their account.

mod plan;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use koinon_control::call::{Error, within_deadline};
use koinon_control::queue::{self, Next, Queue};
use koinon_control::{Key, View};
use kube::api::{DeleteParams, Preconditions};
use kube::core::Status;
use kube::{Api, Client, ResourceExt as _};

use self::plan::{
    ACCOUNT_NAME, ACCOUNT_UID, CERTIFICATES, Lacks, NAMESPACE, Step, TOKEN, TYPE, account_of, is_for,
};
use super::{FIRST_PAUSE, LONGEST_PAUSE, WORKERS, written};
use crate::shared::Shared;

/// Whoever keeps a token in a Secret expects it to last as long as the Secret: the longest that is given.
const LIFETIME: i64 = 1 << 32;

struct Tokens<'a> {
    client: Client,
    accounts: &'a View<ServiceAccount>,
    secrets: &'a View<Secret>,
    authority: &'a str,
}

pub(super) async fn run(
    shared: &Shared,
    accounts: &Arc<View<ServiceAccount>>,
    authority: &Arc<str>,
) -> Infallible {
    let secrets: Arc<View<Secret>> = View::new();
    let queue = Arc::new(Queue::new(FIRST_PAUSE, LONGEST_PAUSE));
    let changed = Arc::downgrade(&queue);
    secrets.on_change(move |before, after| {
        if let (Some(queue), Some(secret)) = (changed.upgrade(), after.or(before)) {
            queue.add(Key::of(&**secret));
        }
    });
    let (owner, of_accounts) = (Arc::downgrade(&queue), secrets.clone());
    accounts.on_change(move |before, after| {
        let (Some(queue), Some(account)) = (owner.upgrade(), after.or(before)) else { return };
        for secret in of_accounts.in_namespace(&account.namespace().unwrap_or_default()) {
            if account_of(&secret) == account.metadata.name.as_deref() {
                queue.add(Key::of(&*secret));
            }
        }
    });
    let tokens = Tokens { client: shared.client.clone(), accounts, secrets: &secrets, authority };
    let (tokens, selection) = (&tokens, format!("type={TYPE}"));
    let work = async {
        tokio::join!(accounts.listed(), secrets.listed());
        queue::work(&queue, WORKERS, |key: Key| async move {
            match tokens.handle(&key).await {
                Ok(()) => Next::Done,
                Err(error) => {
                    tracing::debug!(%key, %error, "tokens: will try again");
                    Next::Retry
                }
            }
        })
        .await
    };
    tokio::select! {
        biased;
        never = secrets.follow_fields(Api::all(shared.client.clone()), &selection) => never,
        never = work => never,
    }
}

impl Tokens<'_> {
    async fn handle(&self, key: &Key) -> Result<(), Error> {
        let Some(secret) = self.secrets.get(key) else { return self.drop_references(key).await };
        let Some(name) = account_of(&secret) else { return Ok(()) };
        let mut account =
            self.accounts.get(&Key::new(&*key.namespace, name)).map(|account| (*account).clone());
        if !account.as_ref().is_some_and(|account| is_for(&secret, account)) {
            // Not seen is not gone: only the server itself can say so.
            account = match within_deadline(self.accounts_in(&key.namespace).get(name)).await {
                Ok(account) => Some(account),
                Err(error) if error.is_object_absent() => None,
                Err(error) => return Err(error),
            };
        }
        match (plan::plan(&secret, account.as_ref(), self.authority), &account) {
            (Step::Fill(lacks), Some(account)) => self.fill(&secret, account, lacks).await,
            (Step::Delete, _) => self.delete(&secret).await,
            (Step::Nothing | Step::Fill(_), _) => Ok(()),
        }
    }

    async fn fill(&self, secret: &Secret, account: &ServiceAccount, lacks: Lacks) -> Result<(), Error> {
        let (namespace, name) = (secret.namespace().unwrap_or_default(), secret.name_any());
        let mut parts: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
        if lacks.certificates {
            parts.insert(CERTIFICATES, self.authority.as_bytes().to_vec());
        }
        if lacks.namespace {
            parts.insert(NAMESPACE, namespace.clone().into_bytes());
        }
        if lacks.token {
            parts.insert(TOKEN, self.mint(&namespace, secret, account).await?.into_bytes());
        }
        let mut secret = secret.clone();
        let data = secret.data.get_or_insert_default();
        data.extend(parts.into_iter().map(|(key, part)| (key.to_owned(), ByteString(part))));
        secret.annotations_mut().insert(ACCOUNT_NAME.into(), account.name_any());
        secret.annotations_mut().insert(ACCOUNT_UID.into(), account.uid().unwrap_or_default());
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &namespace);
        match within_deadline(api.replace(&name, &written(), &secret)).await {
            Ok(secret) => self.secrets.learn(secret),
            Err(error) if error.is_object_absent() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// A token that is good for as long as the Secret and the account are there.
    async fn mint(
        &self,
        namespace: &str,
        secret: &Secret,
        account: &ServiceAccount,
    ) -> Result<String, Error> {
        let bound = BoundObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Secret".into()),
            name: secret.metadata.name.clone(),
            uid: secret.metadata.uid.clone(),
        };
        let mut request = TokenRequest {
            spec: Some(TokenRequestSpec {
                bound_object_ref: Some(bound),
                expiration_seconds: Some(LIFETIME),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        // Should another account have taken the name meanwhile, it gets no token of ours.
        request.metadata.uid = account.metadata.uid.clone();
        let (api, name, params) = (self.accounts_in(namespace), account.name_any(), written());
        let answer = within_deadline(api.create_token_request(&name, &params, &request)).await?;
        let token = answer.status.and_then(|status| status.token).filter(|token| !token.is_empty());
        token.ok_or_else(|| {
            let none = Status::failure("the server answered a TokenRequest without a token", "InternalError");
            Error::Refused(none.boxed())
        })
    }

    async fn delete(&self, secret: &Secret) -> Result<(), Error> {
        let (key, uid) = (Key::of(secret), secret.uid().unwrap_or_default());
        let same = Preconditions { uid: Some(uid.clone()), resource_version: secret.resource_version() };
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        let params = DeleteParams::default().preconditions(same);
        match within_deadline(api.delete(&key.name, &params)).await {
            Ok(_) => {}
            Err(error) if error.is_object_absent() => self.secrets.forget(&key, &uid),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Accounts that list a token Secret which is gone list it no longer.
    async fn drop_references(&self, key: &Key) -> Result<(), Error> {
        let names = |account: &ServiceAccount| {
            account.secrets.iter().flatten().any(|secret| secret.name.as_ref() == Some(&key.name))
        };
        for account in self.accounts.in_namespace(&key.namespace).into_iter().filter(|one| names(one)) {
            let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
            match within_deadline(api.get_metadata(&key.name)).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_object_absent() => {}
                Err(error) => return Err(error),
            }
            let mut account = (*account).clone();
            if let Some(secrets) = &mut account.secrets {
                secrets.retain(|secret| secret.name.as_ref() != Some(&key.name));
            }
            let name = account.name_any();
            let api = self.accounts_in(&key.namespace);
            match within_deadline(api.replace(&name, &written(), &account)).await {
                Ok(account) => self.accounts.learn(account),
                Err(error) if error.is_object_absent() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn accounts_in(&self, namespace: &str) -> Api<ServiceAccount> {
        Api::namespaced(self.client.clone(), namespace)
    }
}
