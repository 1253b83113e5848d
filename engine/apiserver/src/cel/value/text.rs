//! Texts: of the object, where they are, and made ones.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

/// A text. One of the object is not copied when it is read: an expression may read it very often.
#[derive(Clone)]
pub(in crate::cel) enum Text<'a> {
    Written(&'a str),
    Made(Rc<str>),
    /// Written in the expression itself.
    Literal(Rc<str>),
}

impl Text<'_> {
    pub(in crate::cel) fn shared(&self) -> Rc<str> {
        match self {
            Text::Written(text) => (*text).into(),
            Text::Made(text) | Text::Literal(text) => text.clone(),
        }
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Written(text) => text,
            Text::Made(text) | Text::Literal(text) => text,
        }
    }
}

impl From<&str> for Text<'_> {
    fn from(text: &str) -> Self {
        Text::Made(text.into())
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text<'_> {}

impl PartialOrd for Text<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}
