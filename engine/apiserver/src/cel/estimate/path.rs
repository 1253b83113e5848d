//! Where in a schema a value comes from, as cel-go's estimator notes it: in a slice of Go.

use std::cell::RefCell;
use std::rc::Rc;

/// A variable, then fields, `@items`, `@keys` and `@values`.
///
/// In Go, two slices that were made by appending to one have the same array behind them as long as it has room, and the
/// second append overwrites what the first one wrote. cel-go's estimator appends like that: in
/// `self.list.all(x, x.items.all(y, y != x.name))` the path of `x.items` becomes that of `x.name` before its size is asked
/// for. CRDs are accepted and refused by what comes of it, so the array is shared here too.
#[derive(Debug, Clone, Default)]
pub(super) struct Path {
    array: Rc<RefCell<Vec<Rc<str>>>>,
    length: usize,
    room: usize,
}

impl Path {
    pub(super) fn of(variable: &str) -> Path {
        Path { array: Rc::new(RefCell::new(vec![variable.into()])), length: 1, room: 1 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(super) fn append(&self, part: &str) -> Path {
        if self.length == self.room {
            return self.copied().append(part);
        }
        let mut array = self.array.borrow_mut();
        match array.get_mut(self.length) {
            Some(old) => *old = part.into(),
            None => array.push(part.into()),
        }
        Path { array: self.array.clone(), length: self.length + 1, room: self.room }
    }

    /// What it says now.
    pub(super) fn parts(&self) -> Vec<Rc<str>> {
        self.array.borrow()[..self.length].to_vec()
    }

    /// A copy with twice the room, as Go makes of a slice that is full.
    pub(super) fn copied(&self) -> Path {
        let array = Rc::new(RefCell::new(self.parts()));
        Path { array, length: self.length, room: (2 * self.room).max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_share_their_array_as_slices_do() {
        let text = |path: &Path| path.parts().join(".");
        let item = Path::of("self").append("list").append("@items");
        let items = item.append("items");
        assert_eq!(text(&items), "self.list.@items.items");
        let inner = items.append("@items");
        let name = item.append("name");
        assert_eq!((text(&items), text(&name)), ("self.list.@items.name".into(), text(&items)));
        assert_eq!(text(&inner), "self.list.@items.items.@items", "there was no room: a copy");
        assert!(Path::default().is_empty() && text(&Path::default().append("a")) == "a");
    }
}
