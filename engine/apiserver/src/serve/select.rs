//! Which objects a list, a watch or a deletion of many is about.

use std::cell::OnceCell;

use super::call::Call;
use crate::catalog::Resource;
use crate::selector::{FieldSelector, LabelSelector, field_label, field_paths, field_values};
use crate::status::Result;
use crate::store::{Entry, Item, Labels};

/// Label and field selectors of a request.
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    /// Where built-in kinds keep these fields.
    paths: Vec<Vec<String>>,
}

impl Selection {
    /// `check` refuses options that do not go together.
    pub(crate) fn parse(call: &Call, check: impl FnOnce(&Call) -> Result<()>) -> Result<Selection> {
        let labels = LabelSelector::parse(call.query.get("labelSelector").unwrap_or(""))?;
        let Resource { group, version, kind, custom, .. } = &*call.resource;
        let custom = custom.as_ref().map(|custom| &custom.version().fields);
        // A watch of one object by its address is a selection by name.
        if !call.info.name.is_empty() {
            check(call)?;
            let fields = FieldSelector::by_name(&call.info.name);
            return Ok(Selection { labels, fields, paths: Vec::new() });
        }
        let fields = FieldSelector::parse(call.query.get("fieldSelector").unwrap_or(""))?;
        // Options are read, then checked, and only then are fields looked up.
        check(call)?;
        let fields = fields.convert(|label| match custom {
            Some(custom) => custom.label(label),
            None => field_label(group, version, kind, label),
        })?;
        let asked = fields.requirements().iter();
        let paths = asked.flat_map(|one| field_paths(group, kind, &one.field)).collect();
        Ok(Selection { labels, fields, paths })
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, call: &Call, item: &Item) -> bool {
        self.matches_entry(call, &item.namespace, &item.name, &item.entry)
    }

    pub(crate) fn matches_entry(&self, call: &Call, namespace: &str, name: &str, entry: &Entry) -> bool {
        self.matches_labels(&entry.labels) && self.matches_fields(call, namespace, name, entry)
    }

    fn matches_labels(&self, labels: &Labels) -> bool {
        self.labels.matches(|key| labels.get(key))
    }

    /// The object is read only for fields that are not part of its key, and no more of it than they are.
    fn matches_fields(&self, call: &Call, namespace: &str, name: &str, entry: &Entry) -> bool {
        if self.fields.is_empty() {
            return true;
        }
        let read = OnceCell::new();
        self.fields.matches(|field| match field {
            "metadata.name" => Some(name.to_owned()),
            "metadata.namespace" => Some(namespace.to_owned()),
            _ => {
                let Resource { group, kind, custom, .. } = &*call.resource;
                let object = read.get_or_init(|| call.branches(entry.revision, &entry.body, &self.paths));
                match custom {
                    Some(custom) => custom.version().fields.value(object, field),
                    None => field_values(group, kind, object, field),
                }
            }
        })
    }
}
