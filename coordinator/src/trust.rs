//! Trust classes: groups of submitters that share workspaces and caches.

use crate::auth::Principal;
use buildpool_protocol::spec::{Access, Reads, check_name};
use std::collections::BTreeMap;

/// Limit on teams, and on members of one team.
const TEAM_LIST_MAX: usize = 1_000;

/// The configured trust classes of a pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trust {
    /// All jobs have one class, as in a local pool.
    pub is_local: bool,
    /// The members of a team share one class.
    pub teams_share: bool,
    /// Team of each submitter that is in one.
    pub teams: BTreeMap<String, String>,
}

impl Trust {
    /// Reads the keys `trust` and `teams` of a configuration.
    ///
    /// # Errors
    /// The invalid key and the valid values.
    pub(crate) fn read(trust: Option<&str>, teams: BTreeMap<String, Vec<String>>) -> Result<Self, String> {
        let teams_share = match trust {
            None | Some("submitter") => false,
            Some("team") => true,
            Some(other) => {
                return Err(format!("trust: `{}`: valid are submitter and team", other.escape_debug()));
            }
        };
        if teams.len() > TEAM_LIST_MAX {
            return Err(format!("teams: {} given; at most {TEAM_LIST_MAX} are valid", teams.len()));
        }
        let mut found: BTreeMap<String, String> = BTreeMap::new();
        for (team, members) in teams {
            check_name("teams", &team).map_err(|error| error.to_string())?;
            if members.len() > TEAM_LIST_MAX {
                return Err(format!(
                    "teams.{team}: {} members; at most {TEAM_LIST_MAX} are valid",
                    members.len()
                ));
            }
            for member in members {
                check_name("teams", &member).map_err(|error| error.to_string())?;
                if let Some(other) = found.insert(member.clone(), team.clone()).filter(|other| *other != team)
                {
                    return Err(format!(
                        "teams.{team}: `{member}` is in {other} too; a submitter can be in one team"
                    ));
                }
            }
        }
        Ok(Self { is_local: false, teams_share, teams: found })
    }

    /// Returns the trust class of a submitter's jobs.
    pub(crate) fn class_of(&self, submitter: &str) -> String {
        let team = self.teams.get(submitter).filter(|_| self.teams_share);
        match team {
            _ if self.is_local => String::new(),
            Some(team) => format!("team:{team}"),
            None => own_class(submitter),
        }
    }

    /// Returns the trust class of a token's jobs. A token that reads only its own jobs has no part in
    /// the class of a team: a job can read files that other jobs of its class left in a workspace.
    pub(crate) fn class_for(&self, principal: &Principal) -> String {
        match principal.only.reads {
            Reads::Own if !self.is_local => own_class(&principal.name),
            Reads::Own | Reads::All => self.class_of(&principal.name),
        }
    }

    /// Returns the trust class of a stored job that runs again. The class that it was submitted with
    /// counts only while its submitter can still have that class.
    pub(crate) fn class_again(&self, submitter: &str, stored: &str) -> String {
        let own = own_class(submitter);
        if stored == own && !self.is_local { own } else { self.class_of(submitter) }
    }

    /// Returns the access rights of a token's jobs that the configuration determines.
    pub(crate) fn access_of(&self, principal: &Principal) -> Access {
        let submitter = principal.name.as_str();
        let names = [Some(submitter), self.teams.get(submitter).map(String::as_str)];
        Access {
            class: self.class_for(principal),
            names: names.into_iter().flatten().map(str::to_owned).collect(),
            reads_own: principal.only.reads == Reads::Own,
            ..Access::default()
        }
    }
}

/// Returns the class of the jobs of one submitter.
fn own_class(submitter: &str) -> String {
    format!("submitter:{submitter}")
}

#[cfg(test)]
mod tests {
    use super::Trust;
    use crate::auth::Principal;
    use buildpool_protocol::TokenId;
    use buildpool_protocol::client_link::Role;
    use buildpool_protocol::spec::{Reads, Restriction};
    use std::collections::BTreeMap;

    fn teams(entries: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
        let members = |members: &[&str]| members.iter().map(|name| (*name).to_owned()).collect();
        entries.iter().map(|(team, names)| ((*team).to_owned(), members(names))).collect()
    }

    fn principal(name: &str, reads: Reads) -> Principal {
        let only = Restriction { reads, ..Restriction::default() };
        let token = TokenId::from_uuid(uuid::Uuid::nil());
        Principal { token, name: name.to_owned(), role: Role::Submit, only }
    }

    #[test]
    fn a_token_that_reads_its_own_jobs_has_no_part_in_its_team_s_class() {
        let together = Trust::read(Some("team"), teams(&[("core", &["ada", "grace"])])).expect("valid");
        let (own, all) = (principal("ada", Reads::Own), principal("ada", Reads::All));
        assert_eq!(together.class_for(&all), together.class_of("grace"));
        let class = together.class_for(&own);
        assert_ne!(class, together.class_of("grace"));
        assert_eq!(together.access_of(&own).names, ["ada", "core"], "workers of the team accept it");
        assert_eq!(together.class_again("ada", &class), class);
        assert_eq!(together.class_again("ada", "team:core"), "team:core");
        assert_eq!(together.class_again("eve", "team:core"), "submitter:eve", "she left the team");
        assert_eq!(Trust { is_local: true, ..together }.class_for(&own), "");
    }

    #[test]
    fn a_submitter_has_a_class_of_its_own_unless_its_team_shares_one() {
        let members: &[(&str, &[&str])] = &[("core", &["ada", "grace"]), ("ada2", &["linus"])];
        let alone = Trust::read(None, teams(members)).expect("valid");
        assert_ne!(alone.class_of("ada"), alone.class_of("grace"));
        assert_eq!(alone.access_of(&principal("ada", Reads::All)).names, ["ada", "core"]);
        let together = Trust::read(Some("team"), teams(members)).expect("valid");
        assert_eq!(together.class_of("ada"), together.class_of("grace"));
        assert_ne!(together.class_of("ada"), together.class_of("eve"));
        assert_ne!(together.class_of("linus"), together.class_of("ada2"), "a team is not a submitter");
        assert_eq!(Trust { is_local: true, ..alone }.class_of("ada"), "");
    }

    #[test]
    fn a_wrong_key_is_named() {
        let wrong = |trust, members| Trust::read(trust, teams(members)).expect_err("wrong");
        assert!(wrong(Some("all"), &[]).starts_with("trust: `all`: valid are submitter and team"));
        assert!(wrong(None, &[("a b", &["ada"])]).contains("teams"));
        assert!(wrong(None, &[("a", &["x y"])]).contains("teams"));
        assert!(wrong(None, &[("a", &["ada"]), ("b", &["ada"])]).contains("is in a too"));
    }
}
