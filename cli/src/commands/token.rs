//! `buildpool token create|list|rotate|revoke`

use super::coordinator::{self, URL_FILE};
use super::jobs::ago;
use crate::arguments::{DataPlace, Form, TokenAction, TokenArguments, TokenPlace};
use crate::failure::{Failure, REFUSED};
use crate::settings;
use crate::terminal;
use crate::terminal::table::Table;
use buildpool_client::{PoolUrl, RevokedTokens};
use buildpool_coordinator::auth::{JobsAfter, TOKENS_FILE, Tokens};
use buildpool_coordinator::tls::{Tls, TlsSource};
use buildpool_coordinator::{Config, Protection};
use buildpool_protocol::client_link::{Role, TokenCreated, TokenSummary};
use buildpool_protocol::ids::TokenId;
use buildpool_protocol::shown::counted;
use buildpool_protocol::spec::Restriction;
use buildpool_protocol::token;
use buildpool_trust::is_loopback;
use nix::unistd::{Gid, Uid, setegid, seteuid};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Actor of audit lines for changes by a user with access to the files.
const BY_FILES: &str = "data directory";
/// Placeholder for an unknown address.
const UNKNOWN_HOST: &str = "HOST:7420";

pub(crate) fn run(arguments: TokenArguments) -> Result<ExitCode, Failure> {
    super::block_on(async {
        match arguments.action {
            TokenAction::Create { place, role, names, expires, only, form } => {
                let are_counted = names.are_counted();
                let new = create(&place, (role, only.read()), &names.read(), expires).await?;
                if let Some(first) = new.tokens.first().filter(|_| role == Role::Worker && !form.json) {
                    show_joining(&first.token, are_counted, &new.url, &new.certificate);
                }
                match new.tokens.as_slice() {
                    [one] if !are_counted => show_created(one, form)?,
                    several => show_several(several, form)?,
                };
                new.failure.map_or(Ok(ExitCode::SUCCESS), Err)
            }
            TokenAction::Rotate { place, which, grace, expires, form } => {
                show_created(&rotate(&place, &which, grace, expires).await?, form)
            }
            TokenAction::List { place, form } => show(&list(&place).await?, form),
            TokenAction::Revoke { place, which, keep_jobs, form } => {
                let RevokedTokens { tokens, revoked } = revoke(&place, &which, keep_jobs).await?;
                terminal::warn(&revoked_text(&revoked, &which));
                show(&tokens, form)
            }
        }
    })
}

/// How a worker can verify the coordinator's certificate.
enum Certificate {
    /// By the token, or the connection is plain.
    Known,
    /// By this fingerprint of a certificate from files.
    Files(String),
    /// Unknown: the coordinator is on another machine.
    Unknown,
}

/// Created tokens, and how workers reach their coordinator.
struct Created {
    tokens: Vec<TokenCreated>,
    /// Why the remaining tokens were not created.
    failure: Option<Failure>,
    url: String,
    certificate: Certificate,
}

/// Prints the command that joins a machine as a worker. With several tokens, `TOKEN` stands for one of them.
fn show_joining(token: &str, is_one_of_several: bool, url: &str, certificate: &Certificate) {
    let hint =
        if url.contains(UNKNOWN_HOST) { ", with the coordinator's own in place of HOST:7420" } else { "" };
    let is_trusted =
        token::parse(token).is_ok_and(|parts| parts.fingerprint.is_some()) || !url.starts_with("wss:");
    let (option, note) = match certificate {
        _ if is_trusted => (String::new(), None),
        Certificate::Files(fingerprint) => (
            format!(" --fingerprint {fingerprint}"),
            Some(
                "this holds for the present certificate; where an authority signs each new one, give `--ca-file` with the authority's certificates (PEM) instead of `--fingerprint`",
            ),
        ),
        Certificate::Known | Certificate::Unknown => (
            " --ca-file AUTHORITY.pem".to_owned(),
            Some(
                "AUTHORITY.pem stands for the certificates of the authority that signed the coordinator's, as on most systems /etc/ssl/certs/ca-certificates.crt or /etc/ssl/cert.pem",
            ),
        ),
    };
    let token = if is_one_of_several { "TOKEN" } else { token };
    terminal::warn(&format!(
        "to join{hint}: run `buildpool install worker --write{option} --join -` on the worker's machine and paste this line: {url}#{token}"
    ));
    note.into_iter().for_each(terminal::warn);
    let is_plain = url.parse::<PoolUrl>().is_ok_and(|url| !url.is_secure() && !is_loopback(url.host()));
    if is_plain {
        terminal::warn(
            "this coordinator speaks no TLS: put the wss:// URL of the proxy before it into the line; \
             where the network itself is encrypted, add `--insecure-plain-text`",
        );
    }
}

/// Returns the configuration of the coordinator on this machine that the command is for. `None` if
/// the command connects to a pool.
pub(super) fn files(place: &TokenPlace) -> Result<Option<Config>, Failure> {
    if place.config.is_none() && place.data_dir.is_none() {
        let Some(file) = coordinator::system_file() else { return Ok(None) };
        if settings::is_named(&place.pool)? {
            return Ok(None);
        }
        terminal::warn(&format!("using the coordinator of this machine ({})", file.display()));
    }
    let data = DataPlace { data_dir: place.data_dir.clone(), config: place.config.clone() };
    let config = coordinator::configuration_of(&data)?;
    become_owner(&config.data_dir)?;
    Ok(Some(config))
}

/// Lets root create files as the owner of the data directory. The coordinator runs as that user,
/// and can't open files of root.
pub(super) fn become_owner(directory: &Path) -> Result<(), Failure> {
    let Ok(metadata) = directory.metadata() else { return Ok(()) };
    if !Uid::effective().is_root() || metadata.uid() == 0 {
        return Ok(());
    }
    setegid(Gid::from_raw(metadata.gid())).and_then(|()| seteuid(Uid::from_raw(metadata.uid()))).map_err(
        |error| {
            let doing = format!(
                "{} belongs to user {}, and this process can't get that user's rights",
                directory.display(),
                metadata.uid()
            );
            Failure::while_doing(REFUSED, doing, &error)
        },
    )
}

/// Creates a token with each of the names. Ends at the first failure, because the tokens before it exist and must be
/// printed.
async fn create(
    place: &TokenPlace,
    (role, only): (Role, Restriction),
    names: &[String],
    expires: Option<Duration>,
) -> Result<Created, Failure> {
    let mut tokens = Vec::with_capacity(names.len());
    let mut failure = None;
    let Some(config) = files(place)? else {
        let client = settings::connect_to_running(&place.pool).await?;
        for name in names {
            match client.token_create_restricted(role, name, expires, only.clone()).await {
                Ok(token) => tokens.push(token),
                Err(error) => {
                    failure = Some(error.into());
                    break;
                }
            }
        }
        let url = client.pool().url.to_string();
        return Ok(Created { tokens, failure, url, certificate: Certificate::Unknown });
    };
    let store = open_or_make(&config)?;
    let fingerprint = fingerprint(&config)?;
    for name in names {
        match store.create_restricted((role, &only), name, expires, fingerprint.as_deref(), BY_FILES) {
            Ok(token) => tokens.push(token),
            Err(error) => {
                failure = Some(Failure::from_error(REFUSED, &error));
                break;
            }
        }
    }
    let is_configured = place.config.is_some() || place.data_dir.is_none();
    let public = config.public_url.as_ref().or(config.store.advertise.as_ref()).map(ToString::to_string);
    let url = public
        .or_else(|| recorded_url(&config))
        .unwrap_or_else(|| if is_configured { url_of(&config) } else { format!("wss://{UNKNOWN_HOST}") });
    Ok(Created { tokens, failure, url, certificate: certificate(&config) })
}

/// A token can be created before the certificate exists.
fn certificate(config: &Config) -> Certificate {
    let Protection::Files { certificate, key } = &config.protection else { return Certificate::Known };
    let source = TlsSource::Files { certificate: certificate.clone(), key: key.clone() };
    Tls::open(&source).map_or(Certificate::Unknown, |tls| Certificate::Files(tls.fingerprint()))
}

/// Returns the recorded listen URL of this data directory, in a form that is reachable from other
/// machines.
fn recorded_url(config: &Config) -> Option<String> {
    let text = fs::read_to_string(config.data_dir.join(URL_FILE)).ok()?;
    let (scheme, address) = text.trim().split_once("://")?;
    let address: SocketAddr = address.trim_end_matches('/').parse().ok()?;
    Some(if address.ip().is_unspecified() {
        format!("{scheme}://{}:{}", own_host(), address.port())
    } else {
        format!("{scheme}://{address}")
    })
}

fn own_host() -> String {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    host.unwrap_or_else(|| "HOST".to_owned())
}

/// Derives the URL from the configuration, in a form that is reachable from other machines.
fn url_of(config: &Config) -> String {
    let is_plain = match config.protection {
        Protection::Off => true,
        Protection::Automatic => config.listen.ip().is_loopback(),
        Protection::Files { .. } => false,
    };
    let scheme = if is_plain { "ws" } else { "wss" };
    if !config.listen.ip().is_unspecified() {
        return format!("{scheme}://{}", config.listen);
    }
    format!("{scheme}://{}:{}", own_host(), config.listen.port())
}

async fn rotate(
    place: &TokenPlace,
    which: &str,
    grace: Duration,
    expires: Option<Duration>,
) -> Result<TokenCreated, Failure> {
    let Some(config) = files(place)? else {
        return Ok(settings::connect_to_running(&place.pool)
            .await?
            .token_rotate(which, grace, expires)
            .await?);
    };
    let tokens = open(&config)?;
    let fingerprint = fingerprint(&config)?;
    tokens
        .rotate(which, grace, expires, fingerprint.as_deref(), BY_FILES)
        .map_err(|error| Failure::from_error(REFUSED, &error))
}

async fn list(place: &TokenPlace) -> Result<Vec<TokenSummary>, Failure> {
    match files(place)? {
        None => Ok(settings::connect_to_running(&place.pool).await?.tokens().await?),
        Some(config) => open(&config)?.list().map_err(|error| Failure::from_error(REFUSED, &error)),
    }
}

async fn revoke(place: &TokenPlace, token: &str, keep_jobs: bool) -> Result<RevokedTokens, Failure> {
    let Some(config) = files(place)? else {
        return Ok(settings::connect_to_running(&place.pool).await?.token_revoke(token, keep_jobs).await?);
    };
    let tokens = open(&config)?;
    let revoked = tokens
        .revoke(token, jobs_after(keep_jobs), BY_FILES)
        .map_err(|error| Failure::from_error(REFUSED, &error))?;
    let tokens = tokens.list().map_err(|error| Failure::from_error(REFUSED, &error))?;
    Ok(RevokedTokens { tokens, revoked })
}

/// Returns a text that names the revoked tokens. An earlier coordinator does not send their ids.
fn revoked_text(revoked: &[TokenId], which: &str) -> String {
    let which = terminal::one_line(which);
    if revoked.is_empty() {
        return format!("revoked `{which}`");
    }
    let ids: Vec<String> = revoked.iter().map(TokenId::to_string).collect();
    format!("revoked {} by `{which}`: {}", counted(ids.len() as u64, "token"), ids.join(", "))
}

const fn jobs_after(keep_jobs: bool) -> JobsAfter {
    if keep_jobs { JobsAfter::Continue } else { JobsAfter::End }
}

/// Opens the tokens of a coordinator that has some. Only creating the first token creates the
/// files.
pub(super) fn open(config: &Config) -> Result<Tokens, Failure> {
    let directory = &config.data_dir;
    if config.store.url.is_none() && !directory.join(TOKENS_FILE).exists() {
        let text = format!(
            "{} is not a coordinator's data directory: it has no `{TOKENS_FILE}`; `buildpool token create` makes one",
            directory.display()
        );
        return Err(Failure::new(REFUSED, text));
    }
    open_or_make(config)
}

fn open_or_make(config: &Config) -> Result<Tokens, Failure> {
    let tokens = match config.store.server().map_err(|error| Failure::from_error(REFUSED, &error))? {
        Some(server) => Tokens::open_on(&server),
        None => Tokens::open(&config.data_dir),
    };
    tokens.map_err(|error| Failure::from_error(REFUSED, &error))
}

/// Returns the fingerprint that tokens contain, unless the certificate is from files or TLS is off.
fn fingerprint(config: &Config) -> Result<Option<String>, Failure> {
    match config.protection {
        Protection::Off | Protection::Files { .. } => Ok(None),
        Protection::Automatic => {
            let (directory, names) = (config.data_dir.clone(), config.certificate_names());
            let source = TlsSource::SelfSigned { directory, names };
            let tls = Tls::open(&source).map_err(|error| Failure::from_error(REFUSED, &error))?;
            Ok(tls.token_fingerprint())
        }
    }
}

fn show_created(created: &TokenCreated, form: Form) -> Result<ExitCode, Failure> {
    if form.json {
        terminal::print_json(created)?;
    } else {
        terminal::print(&format!("{}\n", created.token))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show_several(created: &[TokenCreated], form: Form) -> Result<ExitCode, Failure> {
    if form.json {
        terminal::print_json(&created)?;
    } else {
        terminal::print(&created.iter().map(|one| format!("{}\n", one.token)).collect::<String>())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns true if a token is valid at this time.
pub(super) fn is_in_force(token: &TokenSummary, now: jiff::Timestamp) -> bool {
    let has_expired = |at: &String| at.parse::<jiff::Timestamp>().is_ok_and(|at| at <= now);
    token.revoked_at.is_none() && !token.expires_at.as_ref().is_some_and(has_expired)
}

/// Describes the validity of a token. The pool refuses it from the moment of its expiry.
fn state(token: &TokenSummary, now: jiff::Timestamp) -> String {
    match (&token.revoked_at, &token.expires_at) {
        (Some(at), _) => format!("revoked {}", ago(at)),
        (None, Some(at)) if !is_in_force(token, now) => format!("expired {}", ago(at)),
        (None, Some(at)) => format!("until {at}"),
        (None, None) => "valid".to_owned(),
    }
}

/// Returns the limits of a token in one line.
fn limits(only: &Restriction) -> String {
    let workers = only.workers.iter().map(|name| format!("worker {name}"));
    let labels = only.labels.iter().map(|selector| format!("label {selector}"));
    let projects = only.projects.iter().map(|project| format!("project {project}"));
    let reads = (!only.reads.is_all()).then(|| format!("reads {}", only.reads));
    workers.chain(labels).chain(projects).chain(reads).collect::<Vec<_>>().join(", ")
}

fn show(tokens: &[TokenSummary], form: Form) -> Result<ExitCode, Failure> {
    if form.json {
        terminal::print_json(&tokens)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(["TOKEN", "ROLE", "CREATED", "STATE", "NAME", "ONLY"]);
    for token in tokens {
        let state = state(token, jiff::Timestamp::now());
        table.row([
            token.id.to_string().into(),
            token.role.name().into(),
            ago(&token.created_at).into(),
            state.into(),
            token.name.as_str().into(),
            limits(&token.only).into(),
        ]);
    }
    terminal::print(&table.text())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::{revoked_text, state};
    use buildpool_protocol::client_link::{Role, TokenSummary};
    use buildpool_protocol::ids::TokenId;
    use buildpool_protocol::spec::Restriction;

    fn token(id: u128) -> TokenSummary {
        TokenSummary {
            id: TokenId::from_uuid(uuid::Uuid::from_u128(id)),
            role: Role::Submit,
            name: "ci".into(),
            created_at: "2026-01-01T00:00:00Z".into(),
            expires_at: None,
            revoked_at: None,
            only: Restriction::default(),
        }
    }

    #[test]
    fn each_token_that_was_revoked_is_named() {
        let [first, second] = [1, 2].map(|id| token(id).id);
        assert_eq!(
            revoked_text(&[first, second], "ci"),
            format!("revoked 2 tokens by `ci`: {first}, {second}")
        );
        assert_eq!(revoked_text(&[first], "ci"), format!("revoked 1 token by `ci`: {first}"));
        assert_eq!(revoked_text(&[], "ci"), "revoked `ci`");
    }

    #[test]
    fn a_token_that_has_expired_is_said_to_have() {
        let at = "2026-01-02T03:04:05Z";
        let mut token = TokenSummary { expires_at: Some(at.into()), ..token(0) };
        assert_eq!(state(&token, "2026-01-02T03:04:04Z".parse().unwrap()), format!("until {at}"));
        assert!(state(&token, at.parse().unwrap()).starts_with("expired "));
        token.revoked_at = Some(at.into());
        assert!(state(&token, at.parse().unwrap()).starts_with("revoked "));
    }
}
