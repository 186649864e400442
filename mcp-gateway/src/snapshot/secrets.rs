//! Which files look like secrets, by name. The list is for what lies about uncommitted in a working tree; what is committed
//! is in the history anyway.

/// Whole names.
const NAMES: &[&str] = &[
    ".env",
    ".envrc",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
    ".dockercfg",
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

/// Ends of names.
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

/// What follows `.env.`, or is before `.env`, where the file is meant to be shared.
const SHARED_ENVIRONMENTS: &[&str] = &["example", "sample", "template", "dist", "defaults", "schema"];

/// Directories all of whose files are secrets.
const DIRECTORIES: &[&str] = &[".ssh", ".gnupg", ".aws", ".kube", ".azure"];

/// Whether a path, relative to the project, looks like a secret.
pub(super) fn is_secret(path: &[u8]) -> bool {
    let mut parts = path.rsplit(|byte| *byte == b'/');
    let name = parts.next().unwrap_or_default();
    // Nearly all paths end here: no secret's name is longer, none is without a dot or underscore.
    if !name.iter().any(|byte| matches!(byte, b'.' | b'_'))
        && !path.starts_with(b".")
        && !contains_dot_directory(path)
    {
        return false;
    }
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    if NAMES.contains(&name.as_str()) || ENDS.iter().any(|end| name.ends_with(end) && name.len() > end.len())
    {
        return true;
    }
    if let Some(kind) = name.strip_prefix(".env.") {
        return !SHARED_ENVIRONMENTS.iter().any(|shared| kind.ends_with(shared));
    }
    if let Some(kind) = name.strip_suffix(".env") {
        return !SHARED_ENVIRONMENTS.iter().any(|shared| kind.ends_with(shared));
    }
    if name == "config.json" && path.rsplit(|byte| *byte == b'/').nth(1) == Some(b".docker") {
        return true;
    }
    parts.any(|part| DIRECTORIES.iter().any(|directory| part.eq_ignore_ascii_case(directory.as_bytes())))
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
        ] {
            assert_eq!(is_secret(path.as_bytes()), expected, "{path}");
        }
    }
}
