//! Detects files that look like secrets, by name. The list is for uncommitted files; committed
//! secrets are in the history already.

/// Whole names.
const NAMES: &[&str] = &[
    ".env",
    ".envrc",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
    ".dockercfg",
    ".terraformrc",
    ".databrickscfg",
    ".s3cfg",
    ".boto",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
    "credentials.json",
    "service-account.json",
    "service_account.json",
    "serviceaccount.json",
    "secrets.json",
    "secrets.yml",
    "secrets.yaml",
    "secrets.toml",
    "terraform.tfvars",
];

/// Suffixes of names.
const ENDS: &[&str] = &[
    ".pem",
    ".key",
    ".p8",
    ".p12",
    ".pfx",
    ".pkcs12",
    ".jks",
    ".keystore",
    ".ppk",
    ".kdbx",
    ".ovpn",
    ".tfstate",
    ".asc",
    ".gpg",
    ".keychain",
    ".keychain-db",
];

/// Parts after `.env.`, or before `.env`, in names of files that are meant to be shared.
const SHARED_ENVIRONMENTS: &[&str] = &["example", "sample", "template", "dist", "defaults", "schema"];

/// Directories in which all files are secrets.
const DIRECTORIES: &[&str] = &[".ssh", ".gnupg", ".aws", ".kube", ".azure"];

/// Names that are secrets only in one directory.
const IN_DIRECTORIES: &[(&str, &[&str])] = &[
    (".docker", &["config.json"]),
    (".cargo", &["credentials", "credentials.toml"]),
    (".gem", &["credentials"]),
    (".m2", &["settings.xml", "settings-security.xml"]),
    (".terraform.d", &["credentials.tfrc.json"]),
    (".composer", &["auth.json"]),
    ("gh", &["hosts.yml"]),
    ("gcloud", &["credentials.db", "access_tokens.db", "application_default_credentials.json"]),
    ("rclone", &["rclone.conf"]),
    (".config", &["hub"]),
];

/// Suffixes that editors and users add to copies.
const COPIES: &[&str] = &["~", ".bak", ".backup", ".orig", ".old", ".save", ".swp", ".swo"];

/// Returns true if a path, relative to the project, looks like a secret.
pub(super) fn is_secret(path: &[u8]) -> bool {
    let mut parts = path.rsplit(|byte| *byte == b'/');
    let name = parts.next().unwrap_or_default();
    // Fast path for most names: each secret's name contains a dot or an underscore.
    if !name.iter().any(|byte| matches!(byte, b'.' | b'_'))
        && !path.starts_with(b".")
        && !contains_dot_directory(path)
    {
        return false;
    }
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let mut original = name.as_str();
    while let Some(shorter) = COPIES.iter().find_map(|end| original.strip_suffix(end)) {
        original = shorter;
    }
    let around = path.rsplit(|byte| *byte == b'/').nth(1).unwrap_or_default();
    // A swap file has an additional leading dot.
    let names = [Some(original), original.strip_prefix('.').filter(|_| original != name)];
    if names.into_iter().flatten().any(|name| is_secret_name(name, around)) {
        return true;
    }
    parts.any(|part| DIRECTORIES.iter().any(|directory| part.eq_ignore_ascii_case(directory.as_bytes())))
}

/// Returns true if a lower-case name looks like a secret in a directory with this name.
fn is_secret_name(name: &str, around: &[u8]) -> bool {
    if NAMES.contains(&name) || ENDS.iter().any(|end| name.ends_with(end) && name.len() > end.len()) {
        return true;
    }
    let kind = name.strip_prefix(".env").filter(|kind| kind.starts_with(['.', '-', '_']));
    if let Some(kind) = kind.or_else(|| name.strip_suffix(".env")) {
        return !SHARED_ENVIRONMENTS.iter().any(|shared| kind.ends_with(shared));
    }
    IN_DIRECTORIES
        .iter()
        .any(|(directory, names)| around.eq_ignore_ascii_case(directory.as_bytes()) && names.contains(&name))
}

fn contains_dot_directory(path: &[u8]) -> bool {
    path.windows(2).any(|pair| pair == b"/.")
}

#[cfg(test)]
mod tests {
    use super::is_secret;

    #[test]
    fn names_that_hold_secrets_and_names_that_only_look_alike() {
        for (path, expected) in [
            (".env", true),
            ("services/api/.ENV", true),
            (".env.local", true),
            (".env.production", true),
            (".env.example", false),
            ("deploy/prod.env", true),
            ("example.env", false),
            (".docker/config.json", true),
            ("docker/config.json", false),
            ("keys/service-account.json", true),
            (".env.local.sample", false),
            ("config/server.pem", true),
            ("Certificates.p12", true),
            ("AuthKey_AB12.p8", true),
            ("id_rsa", true),
            ("keys/id_ed25519", true),
            ("id_rsa.pub", false),
            ("home/.ssh/config", true),
            (".aws/credentials", true),
            ("credentials.json", true),
            ("src/environment.rs", false),
            ("src/key.rs", false),
            ("src/.key", false),
            ("monkey", false),
            ("docs/secrets.md", false),
            ("Package.resolved", false),
            (".env~", true),
            (".env-prod", true),
            (".env_staging.old", true),
            (".env-example", false),
            (".env.example.bak", false),
            (".environment", false),
            ("x.pem.bak", true),
            ("x.pem.bak.orig~", true),
            ("keys/id_rsa.old", true),
            (".id_rsa.swp", true),
            ("..env.swp", true),
            (".main.rs.swp", false),
            ("terraform.tfstate.backup", true),
            (".cargo/credentials.toml", true),
            (".cargo/config.toml", false),
            ("credentials.toml", false),
            (".config/gh/hosts.yml", true),
            ("ansible/hosts.yml", false),
            (".yarnrc.yml", true),
            ("notes.old", false),
        ] {
            assert_eq!(is_secret(path.as_bytes()), expected, "{path}");
        }
    }
}
