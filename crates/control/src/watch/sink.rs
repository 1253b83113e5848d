//! Where a watch puts what it sees.

use super::Cut;
use crate::bounds::Excess;

/// Takes in what a watch shows. All of it is called by one loop, in order, and must not block.
///
/// A list begins with [`Sink::begin_list`] and is complete only with [`Sink::end_list`]: what it did not show before
/// that is unknown.
pub trait Sink<T> {
    /// A list begins, before the server is asked for it.
    fn begin_list(&mut self);

    /// One object of the list.
    fn list(&mut self, object: T);

    /// The list is complete, as of this version of the server.
    fn end_list(&mut self, version: u64);

    /// The list that was coming in, if there was one, does not come to its end.
    fn drop_list(&mut self) {}

    /// The watch shows an object.
    fn apply(&mut self, object: T);

    /// The watch shows the end of an object.
    fn delete(&mut self, object: T);

    /// The watch has come to this version: of anything older it has told everything.
    fn observed_up_to(&mut self, _version: u64) {}

    /// The server answers: with a page of the list, or by beginning the watch.
    fn answered(&mut self) {}

    /// From now on changes arrive; what was listed is complete.
    fn following(&mut self) {}

    /// Changes do not arrive for now. What was taken in grows old, but stays.
    fn cut(&mut self, _cut: &Cut) {}

    /// Counts what is held because of the server by now, and says when that is too much.
    fn hold(&mut self) -> Result<(), Excess> {
        Ok(())
    }
}

/// What a watch tells those that need no more than a function.
#[derive(Clone, Debug)]
pub enum Event<T> {
    /// A list begins.
    Init,
    /// One object of the list.
    InitApply(T),
    /// The list is complete: what it did not show is not there.
    InitDone,
    Apply(T),
    Delete(T),
}

/// A sink that is a function of events.
pub(super) struct Calls<F> {
    pub(super) on: F,
    pub(super) what: String,
}

impl<T, F: FnMut(Event<T>)> Sink<T> for Calls<F> {
    fn begin_list(&mut self) {
        (self.on)(Event::Init);
    }

    fn list(&mut self, object: T) {
        (self.on)(Event::InitApply(object));
    }

    fn end_list(&mut self, _version: u64) {
        (self.on)(Event::InitDone);
    }

    fn apply(&mut self, object: T) {
        (self.on)(Event::Apply(object));
    }

    fn delete(&mut self, object: T) {
        (self.on)(Event::Delete(object));
    }

    fn cut(&mut self, cut: &Cut) {
        tracing::debug!(what = self.what, %cut, "watch failed");
    }
}
