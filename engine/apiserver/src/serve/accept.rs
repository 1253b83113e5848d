//! Content negotiation: which of the forms we can write a client wants.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

use super::reviews;
use crate::catalog::Resource;
use crate::protobuf;
use crate::status::{Error, Result};
use crate::table::MetaVersion;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Yaml,
    /// Only for clients that take nothing else: JSON is what we store.
    Protobuf,
}

/// What an object is turned into before it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Whole,
    Table(MetaVersion),
    PartialMetadata(MetaVersion),
    PartialMetadataList(MetaVersion),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Accept {
    pub encoding: Encoding,
    pub form: Form,
    /// Line breaks and indentation, as browsers and `?pretty=true` get.
    pub pretty: bool,
}

/// Whether what is asked for can be shown as a Table: what is only ever created has no columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tables {
    Offered,
    None,
}

impl Tables {
    pub(super) fn of(resource: &Resource, subresource: &str) -> Tables {
        const WITHOUT: [&str; 7] =
            ["approval", "binding", "ephemeralcontainers", "eviction", "finalize", "resize", "token"];
        let created_only = reviews::is_review(resource) || &*resource.storage == "/bindings";
        let part_without = resource.custom.is_none() && WITHOUT.contains(&subresource);
        if created_only || part_without { Tables::None } else { Tables::Offered }
    }
}

/// What a client is told that accepts nothing we can write.
pub(crate) const ACCEPTED: &str = "only the following media types are accepted: application/json, application/yaml, \
                        application/vnd.kubernetes.protobuf";

/// What built-in kinds say to a media type that nobody knows: it is refused before they are looked at.
const NO_SUCH_MEDIA: &str = "406: Not Acceptable\n\nAvailable representations: application/json, \
                             application/yaml, application/vnd.kubernetes.protobuf";

impl Accept {
    /// The first acceptable clause wins; clients list theirs in order of preference.
    pub(super) fn negotiate(headers: &HeaderMap, pretty: bool, tables: Tables) -> Result<Accept> {
        let plain = Accept { encoding: Encoding::Json, form: Form::Whole, pretty };
        let text = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let text = text.collect::<Vec<_>>().join(",");
        if text.trim().is_empty() {
            return Ok(plain);
        }
        let mut clauses: Vec<Clause<'_>> = text.split(',').map(Clause::parse).collect();
        clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
        let offered =
            |(_, form): &(Encoding, Form)| tables == Tables::Offered || !matches!(form, Form::Table(_));
        let accepted: Vec<(Encoding, Form)> =
            clauses.iter().filter_map(Clause::accepted).filter(offered).collect();
        let readable = accepted.iter().find(|(encoding, _)| *encoding != Encoding::Protobuf);
        readable
            .or_else(|| accepted.first())
            .map(|(encoding, form)| Accept { encoding: *encoding, form: *form, pretty })
            .ok_or_else(|| {
                let known = |clause: &Clause<'_>| Clause { as_: None, ..*clause }.accepted().is_some();
                if clauses.iter().any(known) {
                    return Error::not_acceptable(ACCEPTED);
                }
                let mut error = Error::not_acceptable(NO_SUCH_MEDIA);
                error.details = Some(Box::new(serde_json::json!({})));
                error
            })
    }
}

struct Clause<'a> {
    media: &'a str,
    quality: f64,
    as_: Option<&'a str>,
    group: Option<&'a str>,
    version: Option<&'a str>,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let mut clause =
            Clause { media: parts.next().unwrap_or(""), quality: 1.0, as_: None, group: None, version: None };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            match key.trim() {
                "q" => clause.quality = value.trim().parse().unwrap_or(1.0),
                "as" => clause.as_ = Some(value),
                "g" => clause.group = Some(value),
                "v" => clause.version = Some(value),
                _ => {}
            }
        }
        clause
    }

    fn accepted(&self) -> Option<(Encoding, Form)> {
        let encoding = match self.media {
            "application/json" | "*/*" | "application/*" => Encoding::Json,
            "application/yaml" => Encoding::Yaml,
            protobuf::MEDIA_TYPE if self.as_.is_none() => Encoding::Protobuf,
            _ => return None,
        };
        let version = self.version.and_then(MetaVersion::parse).filter(|_| self.group == Some("meta.k8s.io"));
        let form = match self.as_ {
            None => Form::Whole,
            Some("Table") => Form::Table(version?),
            Some("PartialObjectMetadata") => Form::PartialMetadata(version?),
            Some("PartialObjectMetadataList") => Form::PartialMetadataList(version?),
            Some(_) => return None,
        };
        Some((encoding, form))
    }
}

/// What a body is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyType {
    Json,
    Yaml,
    Protobuf,
    Other,
}

/// The media type of a body, without its parameters; JSON when the client says nothing.
pub(super) fn body_type(headers: &HeaderMap) -> (BodyType, String) {
    let Some(text) = headers.get(CONTENT_TYPE) else { return (BodyType::Json, String::new()) };
    let media = text.to_str().unwrap_or("").split(';').next().unwrap_or("").trim().to_owned();
    let kind = match media.as_str() {
        "application/json" => BodyType::Json,
        "application/yaml" => BodyType::Yaml,
        protobuf::MEDIA_TYPE => BodyType::Protobuf,
        _ => BodyType::Other,
    };
    (kind, media)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, expected: Option<(Encoding, Form)>) {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, header.parse().expect("a header"));
        let got = Accept::negotiate(&headers, false, Tables::Offered);
        assert_eq!(got.ok().map(|accept| (accept.encoding, accept.form)), expected, "{header}");
    }

    #[test]
    fn what_has_no_columns_is_shown_whole_or_not_at_all() {
        let mut headers = HeaderMap::new();
        let mut asked = |header: &str| {
            headers.insert(ACCEPT, header.parse().expect("a header"));
            Accept::negotiate(&headers, false, Tables::None).map(|accept| accept.form)
        };
        const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let refused = asked(TABLE).expect_err("a Table");
        assert_eq!((refused.code, refused.message.as_str()), (406, ACCEPTED));
        assert_eq!(asked(&format!("{TABLE},application/json")).ok(), Some(Form::Whole));
    }

    #[test]
    fn the_first_clause_we_can_write_wins() {
        check("", Some((Encoding::Json, Form::Whole)));
        check("*/*", Some((Encoding::Json, Form::Whole)));
        check("application/vnd.kubernetes.protobuf,application/json", Some((Encoding::Json, Form::Whole)));
        check("application/vnd.kubernetes.protobuf", Some((Encoding::Protobuf, Form::Whole)));
        check("application/xml", None);
        check("application/yaml", Some((Encoding::Yaml, Form::Whole)));
        check(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            Some((Encoding::Json, Form::Table(MetaVersion::V1))),
        );
        check(
            "application/json;as=Table;v=v9;g=meta.k8s.io,application/json",
            Some((Encoding::Json, Form::Whole)),
        );
        check("application/json;q=0.5,application/yaml", Some((Encoding::Yaml, Form::Whole)));
    }
}
