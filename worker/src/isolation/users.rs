//! The separate users that jobs run as.

use crate::platform;
use nix::unistd::{Gid, Uid, User};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Mode bit of a directory: only the owner of the directory or of an entry can rename or remove the
/// entry.
const STICKY: u32 = 0o1000;

/// A user that jobs run as, one at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobUser {
    /// Name, ids, home directory and shell.
    pub user: User,
    /// The groups of a login of this user.
    pub groups: Vec<Gid>,
}

impl JobUser {
    /// Returns the system's name of the user.
    pub fn name(&self) -> &str {
        &self.user.name
    }

    fn find(name: &str) -> Result<Self, String> {
        let user = User::from_name(name).map_err(|error| format!("`{name}` can't be looked up: {error}"))?;
        let user = user.ok_or_else(|| {
            format!(
                "there is no user `{name}`; make one by `useradd --system --user-group --no-create-home {name}`"
            )
        })?;
        let c_name = CString::new(name).map_err(|_| format!("`{name}` is no name"))?;
        let groups = platform::groups_of(&c_name, user.gid)
            .map_err(|error| format!("the groups of `{name}` can't be looked up: {error}"))?;
        Ok(Self { user, groups })
    }
}

/// Returns the users with these names, after a check that they separate the jobs of all slots.
///
/// # Errors
/// The unsuitable name, and a suggestion.
pub fn find(names: &[String], slots: u32) -> Result<Vec<JobUser>, String> {
    if (names.len() as u64) < u64::from(slots) {
        return Err(format!(
            "{} given for {slots} slots; name one user a slot, so that jobs that run at once can't reach each other",
            names.len()
        ));
    }
    let users = names.iter().map(|name| JobUser::find(name)).collect::<Result<Vec<_>, _>>()?;
    apart(&users)?;
    Ok(users)
}

/// Checks that no user is root, and that no user has access to another's files.
fn apart(users: &[JobUser]) -> Result<(), String> {
    let root = Gid::from_raw(0);
    let mut seen = BTreeSet::new();
    for one in users {
        let name = one.name();
        if one.user.uid == Uid::from_raw(0) || one.groups.contains(&root) {
            return Err(format!("`{name}` has root's rights; name a user without"));
        }
        if !seen.insert(one.user.uid.as_raw()) {
            return Err(format!("`{name}` is named twice, or has the user id of another one"));
        }
        let others = users.iter().filter(|other| other.user.uid != one.user.uid);
        if let Some(other) = others.into_iter().find(|other| one.groups.contains(&other.user.gid)) {
            return Err(format!(
                "`{name}` is in the group of `{}`; each needs a group of its own that no other is in",
                other.name()
            ));
        }
    }
    Ok(())
}

/// Returns the first directory above this one that another user cannot traverse.
pub fn barrier(directory: &Path) -> Option<PathBuf> {
    let passes = |path: &Path| path.metadata().map_or(true, |metadata| metadata.mode() & 0o001 != 0);
    directory.ancestors().skip(1).find(|path| !passes(path)).map(Path::to_owned)
}

/// Returns the first path on the way to this one that one of the users could change or replace,
/// with the name of the user. The path itself is included. A missing path is checked from its
/// existing parent on.
pub fn changeable<'a>(path: &Path, users: &'a [JobUser]) -> Option<(PathBuf, &'a str)> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    // Symbolic links on the way are followed and checked themselves.
    let resolved = path.ancestors().find_map(|path| path.canonicalize().ok()).unwrap_or_default();
    let places = path.ancestors().chain(resolved.ancestors()).collect::<BTreeSet<_>>();
    places.into_iter().find_map(|place| {
        let metadata = place.symlink_metadata().ok()?;
        let changes = |user: &&JobUser| may_change(&metadata, user);
        users.iter().find(changes).map(|user| (place.to_owned(), user.name()))
    })
}

fn may_change(metadata: &Metadata, user: &JobUser) -> bool {
    if metadata.uid() == user.user.uid.as_raw() {
        return true;
    }
    // The mode of a link is meaningless. In a sticky directory, users cannot rename or remove files
    // of others.
    if metadata.is_symlink() || metadata.is_dir() && metadata.mode() & STICKY != 0 {
        return false;
    }
    let is_in_group =
        user.groups.iter().chain([&user.user.gid]).any(|group| group.as_raw() == metadata.gid());
    metadata.mode() & 0o002 != 0 || is_in_group && metadata.mode() & 0o020 != 0
}

#[cfg(test)]
mod tests {
    use super::{JobUser, apart, barrier, changeable, find};
    use nix::unistd::{Gid, Uid, User};
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::Path;

    fn user(name: &str, uid: u32, groups: &[u32]) -> JobUser {
        let root = User::from_uid(Uid::from_raw(0)).unwrap().expect("every system has root");
        let gid = Gid::from_raw(groups[0]);
        JobUser {
            user: User { name: name.into(), uid: Uid::from_raw(uid), gid, ..root },
            groups: groups.iter().copied().map(Gid::from_raw).collect(),
        }
    }

    #[test]
    fn users_that_could_reach_each_other_are_refused() {
        let (a, b) = (user("a", 901, &[901, 44]), user("b", 902, &[902, 44]));
        assert_eq!(apart(&[a.clone(), b.clone()]), Ok(()));
        let cases = [
            (user("root", 0, &[7]), "has root's rights"),
            (user("c", 903, &[903, 0]), "has root's rights"),
            (user("c", 901, &[903]), "named twice"),
            (user("c", 903, &[903, 901]), "in the group of `a`"),
            (user("c", 903, &[902]), "in the group of"),
        ];
        for (third, reason) in cases {
            let refused = apart(&[a.clone(), b.clone(), third]).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }

    #[test]
    fn fewer_users_than_slots_and_unknown_ones_are_refused() {
        assert!(find(&[], 1).unwrap_err().contains("one user a slot"));
        let unknown = find(&["nobody-of-this-name".into()], 1).unwrap_err();
        assert!(unknown.contains("useradd"), "{unknown}");
    }

    #[test]
    fn a_place_that_a_job_s_user_could_change_is_named_with_its_directories() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let (etc, token) = (top.join("etc"), top.join("etc/token"));
        fs::create_dir(&etc).unwrap();
        fs::write(&token, "secret").unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let own = fs::metadata(&token).unwrap();
        let stranger = own.uid() + 901;
        let users =
            [user("other", stranger, &[stranger]), user("member", stranger + 1, &[stranger + 1, own.gid()])];
        for path in [&top, &etc] {
            set(path, 0o711);
        }
        set(&token, 0o600);
        assert_eq!(changeable(&token, &users), None);
        assert_eq!(changeable(&etc.join("not/there/yet"), &users), None);
        let owner = [user("owner", own.uid(), &[stranger])];
        assert!(changeable(&token, &owner).is_some_and(|(_, name)| name == "owner"));
        for (path, mode, named) in [
            (&token, 0o620, "member"),
            (&etc, 0o730, "member"),
            (&etc, 0o703, "other"),
            (&top, 0o777, "other"),
        ] {
            let before = fs::metadata(path).unwrap().mode();
            set(path, mode);
            assert_eq!(changeable(&token, &users), Some((path.clone(), named)), "{mode:o}");
            set(path, before);
        }
        set(&etc, 0o1777);
        assert_eq!(changeable(&token, &users), None, "as /tmp is");
        let link = top.join("link");
        std::os::unix::fs::symlink(&etc, &link).unwrap();
        assert_eq!(changeable(&link.join("token"), &users), None);
        set(&etc, 0o777);
        assert_eq!(changeable(&link.join("token"), &users), Some((etc, "other")));
    }

    #[test]
    fn a_directory_on_the_way_that_nobody_else_can_pass_is_named() {
        let place = tempfile::tempdir().unwrap();
        let deep = place.path().join("a/b/data");
        fs::create_dir_all(&deep).unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o700)).unwrap();
        fs::set_permissions(place.path().join("a"), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(barrier(&deep), Some(place.path().join("a")));
        fs::set_permissions(place.path().join("a"), fs::Permissions::from_mode(0o711)).unwrap();
        assert_eq!(barrier(&deep), Some(place.path().to_owned()));
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o711)).unwrap();
        assert_eq!(barrier(&deep), None);
    }
}
