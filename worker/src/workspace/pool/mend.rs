//! Objects of a project that were damaged: what can't be read goes, so that it is fetched anew.

use super::Workspaces;
use super::leases::{checkouts, lease_of};
use buildpool_protocol::transfer::ObjectId;

impl Workspaces {
    /// Looks at all objects of a project, and drops what is not whole of them. Never while a job has a checkout: its git reads from
    /// them. Whoever called it sees by what is here then, or by the next failure, what came of it.
    pub(super) fn mend(&self, project: &str, tree: &ObjectId) {
        let home = self.project(project).join("checkouts");
        let is_free = || checkouts(&home, "x").all(|checkout| lease_of(&checkout.directory).is_none());
        let mended = self.cache(project, tree).and_then(|cache| Ok(cache.mend(is_free)?));
        match mended {
            Ok(true) => {
                tracing::warn!(project, "objects were damaged; what is not whole of them is fetched anew");
            }
            Ok(false) => {}
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(project, error, "objects that may be damaged can't be looked at");
            }
        }
    }
}
