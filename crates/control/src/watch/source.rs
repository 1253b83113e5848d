//! Where a watch reads from: a typed or dynamic API, or the raw text of a collection.

use std::fmt::Debug;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Request;
use kube::{Api, Client, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// What a watch shows, until its connection ends.
pub type Events<T> = BoxStream<'static, kube::Result<WatchEvent<T>>>;

/// A collection of objects that can be listed and watched.
pub trait Source: Send + Sync {
    type Object: Send;

    /// One page of the list.
    fn list(&self, params: &ListParams) -> impl Future<Output = kube::Result<Page<Self::Object>>> + Send;

    /// What happens after `version`.
    fn watch(
        &self,
        params: &WatchParams,
        version: &str,
    ) -> impl Future<Output = kube::Result<Events<Self::Object>>> + Send;

    /// What names an object and its version.
    fn meta(object: &Self::Object) -> Meta<'_>;

    /// Waits until the server may be asked at all.
    fn admitted(&self) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Waits until it is this source's turn to list, which lasts until the answer is dropped.
    fn list_turn(&self) -> impl Future<Output: Send> + Send {
        async {}
    }
}

/// What names an object and its version; empty where the server says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    pub version: &'a str,
}

/// One page of a list.
#[derive(Debug)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub version: String,
    /// The token for the next page; empty on the last.
    pub next: String,
}

impl<K> Source for Api<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    type Object = K;

    async fn list(&self, params: &ListParams) -> kube::Result<Page<K>> {
        let list = Api::list(self, params).await?;
        Ok(Page {
            items: list.items,
            version: list.metadata.resource_version.unwrap_or_default(),
            next: list.metadata.continue_.unwrap_or_default(),
        })
    }

    async fn watch(&self, params: &WatchParams, version: &str) -> kube::Result<Events<K>> {
        Ok(Api::watch(self, params, version).await?.boxed())
    }

    fn meta(object: &K) -> Meta<'_> {
        let meta = object.meta();
        Meta {
            namespace: meta.namespace.as_deref().unwrap_or_default(),
            name: meta.name.as_deref().unwrap_or_default(),
            uid: meta.uid.as_deref().unwrap_or_default(),
            version: meta.resource_version.as_deref().unwrap_or_default(),
        }
    }
}

/// A collection by its path, whose objects stay the text that the server wrote, as far as `T` leaves them so.
pub struct Text<T> {
    client: Client,
    path: String,
    object: std::marker::PhantomData<fn() -> T>,
}

/// What can be read of an object of a [`Text`] collection.
pub trait Named {
    fn meta(&self) -> Meta<'_>;
}

impl<T> Text<T> {
    pub fn new(client: Client, path: impl Into<String>) -> Text<T> {
        Text { client, path: path.into(), object: std::marker::PhantomData }
    }
}

impl<T: Named + Clone + DeserializeOwned + Send + 'static> Source for Text<T> {
    type Object = T;

    async fn list(&self, params: &ListParams) -> kube::Result<Page<T>> {
        let request = Request::new(&self.path).list(params).map_err(kube::Error::BuildRequest)?;
        let list: TextList<T> = self.client.request(request).await?;
        Ok(list.into())
    }

    async fn watch(&self, params: &WatchParams, version: &str) -> kube::Result<Events<T>> {
        let request = Request::new(&self.path).watch(params, version).map_err(kube::Error::BuildRequest)?;
        Ok(self.client.request_events::<T>(request).await?.boxed())
    }

    fn meta(object: &T) -> Meta<'_> {
        object.meta()
    }
}

/// A list on the wire. kube's own would buffer every object, which text cannot be read from.
#[derive(Deserialize)]
pub struct TextList<T> {
    metadata: ListMetadata,
    // kube writes an empty list of a typed client as null.
    items: Option<Vec<T>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    #[serde(default)]
    resource_version: String,
    r#continue: Option<String>,
}

impl<T> From<TextList<T>> for Page<T> {
    fn from(list: TextList<T>) -> Page<T> {
        Page {
            items: list.items.unwrap_or_default(),
            version: list.metadata.resource_version,
            next: list.metadata.r#continue.unwrap_or_default(),
        }
    }
}
