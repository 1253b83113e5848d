//! Plans for StatefulSets, over plain values: a small world carries them out, as a server and nodes would.

mod retaining;
mod scaling;
mod updating;
mod world;
