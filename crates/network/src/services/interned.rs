//! Interned strings, such as names of nodes and namespaces: each is kept once, however many objects have it.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// Of so few words nobody looks which are needed still.
const FEW: usize = 1024;

struct Pool {
    words: BTreeSet<Arc<str>>,
    /// With more than so many, those that nobody says any more go.
    many: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { words: BTreeSet::new(), many: FEW });

/// The one copy of a word.
pub(crate) fn intern(text: &str) -> Arc<str> {
    POOL.lock().intern(text)
}

impl Pool {
    fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.words.get(text) {
            return known.clone();
        }
        if self.words.len() >= self.many {
            self.words.retain(|word| Arc::strong_count(word) > 1);
            self.many = (self.words.len() * 2).max(FEW);
        }
        let word: Arc<str> = text.into();
        self.words.insert(word.clone());
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_there_once_and_goes_when_nobody_says_it() {
        let mut pool = Pool { words: BTreeSet::new(), many: 3 };
        let one = pool.intern("one");
        assert!(Arc::ptr_eq(&one, &pool.intern("one")));
        drop(pool.intern("two"));
        drop(pool.intern("three"));
        assert_eq!(pool.words.len(), 3);
        drop(pool.intern("four"));
        assert_eq!(pool.words.iter().map(|word| &**word).collect::<Vec<_>>(), ["four", "one"]);
    }
}
