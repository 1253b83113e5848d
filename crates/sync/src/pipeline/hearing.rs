//! What the watch of one side shows, taken into its cache; keys that changed go to both lanes.

use koinon_control::watch::{Cut, Sink};

use super::Pipeline;
use crate::board::Link;
use crate::end::End;
use crate::record::Wire;

/// One side of a pipeline, as its watch fills it.
pub(super) struct Hearing<'a> {
    pipeline: &'a Pipeline,
    end: &'a End,
    link: &'a Link,
}

impl<'a> Hearing<'a> {
    pub(super) fn of(pipeline: &'a Pipeline, end: &'a End, link: &'a Link) -> Hearing<'a> {
        Hearing { pipeline, end, link }
    }
}

impl Sink<Wire> for Hearing<'_> {
    fn begin_list(&mut self) {
        self.end.side.begin_list();
    }

    fn list(&mut self, item: Wire) {
        let (key, record) = self.pipeline.shared(self.end, item);
        self.end.side.list(key, record);
    }

    fn end_list(&mut self, version: u64) {
        let Hearing { pipeline, end, .. } = self;
        pipeline.metrics.listed(&pipeline.crd, end.place);
        pipeline.reporter.solved("Forbidden");
        let changed = end.side.end_list(version);
        if *pipeline.ready.borrow() || !pipeline.up.side.is_listed() || !pipeline.down.side.is_listed() {
            return pipeline.look_at(changed);
        }
        pipeline.ready.send_replace(true);
        // Until now nothing could be decided about any of them.
        let mut all = pipeline.up.side.keys();
        all.extend(pipeline.down.side.keys());
        pipeline.look_at(all);
    }

    fn drop_list(&mut self) {
        self.end.side.drop_list();
    }

    fn apply(&mut self, item: Wire) {
        self.answered();
        let (key, record) = self.pipeline.shared(self.end, item);
        self.pipeline.look_at(self.end.side.apply(key, record));
    }

    fn delete(&mut self, item: Wire) {
        self.answered();
        let (key, record) = self.pipeline.shared(self.end, item);
        self.pipeline.look_at(self.end.side.delete(&key, &record.uid, record.version));
    }

    fn observed_up_to(&mut self, version: u64) {
        self.answered();
        self.pipeline.look_at(self.end.side.observed_up_to(version));
    }

    fn answered(&mut self) {
        if self.link.reached() {
            // What waited for the link need not wait any longer.
            self.pipeline.lanes.iter().for_each(|lane| lane.queue.retry_now());
            self.pipeline.gate.look_again();
        }
    }

    fn cut(&mut self, cut: &Cut) {
        if !cut.is_failure() {
            return;
        }
        if let Cut::Failed(error) = cut {
            if error.is_path_unknown() {
                self.pipeline.lost.notify_one();
            }
            if error.code() == Some(403) {
                let message = format!("the {} does not let us look: {error}", self.end.place);
                self.pipeline.reporter.problem("Forbidden", message);
            }
        }
        self.link.failed(cut);
    }
}
