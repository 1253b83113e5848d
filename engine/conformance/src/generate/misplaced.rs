//! Requests at addresses of the wrong shape: below a namespace for what is cluster-scoped, outside of namespaces for what
//! is not, and with a verb in the path that the method contradicts.

use super::Plan;
use crate::client::Request;

impl Plan {
    /// Two of them, after all else: nothing that follows depends on what a server makes of them.
    pub(super) fn misplaced(&mut self) {
        for _ in 0..2 {
            let request = self.misplaced_request();
            self.send(request);
        }
    }

    fn misplaced_request(&mut self) -> Request {
        let (kind, name, _) = self.target();
        let collection = kind.misplaced();
        let item = format!("{collection}/{name}");
        let object = kind.object(&mut self.rng, &name);
        // A custom resource is watched by any method at such an address, and a watch has no end.
        if !kind.custom && self.rng.chance(20) {
            let method = *self.rng.pick(&["POST", "PUT", "DELETE"]);
            return Request::json(method, kind.watched(), &object);
        }
        match self.rng.below(8) {
            // What is namespaced can be listed across all namespaces, and there are other sequences'.
            0 if kind.cluster => Request::new("GET", collection),
            0 | 1 => Request::json("POST", collection, &object),
            2 => Request::json("PUT", collection, &object),
            3 => Request::new("DELETE", collection),
            4 => Request::new("GET", item),
            5 => Request::json("PUT", item, &object),
            6 => Request::new("GET", format!("{item}/status")),
            _ => Request::new("DELETE", item),
        }
    }
}
