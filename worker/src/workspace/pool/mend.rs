//! Repairs damaged objects of a project: unreadable objects are removed, so that they are fetched
//! again.

use super::Workspaces;
use super::leases::{checkouts, lease_of};
use buildpool_protocol::transfer::ObjectId;

impl Workspaces {
    /// Checks all objects of a project, and removes incomplete ones. It does nothing while a job
    /// has a checkout, because its git reads the objects. The caller sees the result in the
    /// remaining objects, or in the next failure.
    pub(super) fn mend(&self, project: &str, tree: &ObjectId) {
        let home = self.project(project).join("checkouts");
        let is_free = || checkouts(&home, "x").all(|checkout| lease_of(&checkout.directory).is_none());
        let mended = self.cache(project, tree).and_then(|cache| Ok(cache.mend(is_free)?));
        match mended {
            Ok(true) => {
                tracing::warn!(project, "objects were damaged; the damaged ones are fetched again");
            }
            Ok(false) => {}
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(project, error, "objects that may be damaged can't be looked at");
            }
        }
    }
}
