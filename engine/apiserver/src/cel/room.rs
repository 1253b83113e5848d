//! Room on the stack for expressions that go deep: a rule may nest hundreds of levels, and a thread that
//! serves requests has no place for as many calls inside each other.

use std::thread;

/// Levels for which any thread has room.
const SHALLOW: usize = 50;
/// Enough for the deepest expression that is accepted; memory is used only as far as it is needed.
const ROOM: usize = 64 << 20;

/// Does work that may go as many levels deep.
pub(super) fn with_room<T: Send>(levels: usize, work: impl FnOnce() -> T + Send) -> T {
    if levels <= SHALLOW {
        return work();
    }
    thread::scope(|scope| {
        let worker = thread::Builder::new().stack_size(ROOM).spawn_scoped(scope, work);
        match worker.expect("a thread can be started").join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// How deep the tree of a source can be at most.
pub(super) fn levels(source: &str) -> usize {
    source.bytes().filter(|letter| b"([{.+-*/%<>=!?".contains(letter)).count()
}
