//! What makes a struct a kind of object.

/// A kind of object with these fields, of which the last are left out where there is nothing to say.
macro_rules! namespaced {
    ($kind:ident, $plural:literal, $group:expr, [$($field:ident),+], [$($optional:ident),+]) => {
        namespaced!(version $crate::membership::VERSION, $kind, $plural, $group, [$($field),+], [$($optional),+]);
    };
    (version $version:expr, $kind:ident, $plural:literal, $group:expr, [$($field:ident),+], [$($optional:ident),+]) => {
        impl serde::Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                let mut object = serializer.serialize_map(None)?;
                object.serialize_entry("apiVersion", &<$kind as kube::Resource>::api_version(&()))?;
                object.serialize_entry("kind", stringify!($kind))?;
                $(object.serialize_entry(stringify!($field), &self.$field)?;)+
                $(if let Some(value) = &self.$optional {
                    object.serialize_entry(stringify!($optional), value)?;
                })+
                object.end()
            }
        }

        impl kube::Resource for $kind {
            type DynamicType = ();
            type Scope = kube::core::NamespaceResourceScope;

            fn kind(_: &()) -> std::borrow::Cow<'_, str> {
                stringify!($kind).into()
            }

            fn group(_: &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version(_: &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural(_: &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pub(crate) use namespaced;
