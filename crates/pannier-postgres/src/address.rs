//! The address of a database: a URL, completed by the variables and the service file that other clients of PostgreSQL use.
//!
//! Credentials stay in here. Messages, logs and receipts get the host, the port and the database.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use pannier_docs::DocsError;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::vectors::EXACT_MAX_CHUNKS;

/// The collection of an address that names none.
const DEFAULT_COLLECTION: &str = "default";

/// How long a search waits for an answer: the server ends a statement after 30 seconds.
const SEARCH_LIMIT: Duration = Duration::from_secs(40);

/// The time without traffic after which a connection is checked.
const MAX_KEEPALIVE: Duration = Duration::from_secs(60);

/// The maximum length of the name of a collection.
const MAX_NAME_BYTES: usize = 128;

/// The variables that complete an address, and the key of each.
const VARIABLES: [(&str, &str); 8] = [
    ("PGHOST", "host"),
    ("PGPORT", "port"),
    ("PGUSER", "user"),
    ("PGPASSWORD", "password"),
    ("PGDATABASE", "dbname"),
    ("PGSSLMODE", "sslmode"),
    ("PGSSLROOTCERT", "sslrootcert"),
    ("PGCONNECT_TIMEOUT", "connect_timeout"),
];

/// Returns whether a name of an index is the address of a database.
pub fn is_address(name: &str) -> bool {
    let begins_with = |scheme: &str| {
        name.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    begins_with("postgres://") || begins_with("postgresql://")
}

/// Where a collection is, and how to connect.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) config: Config,
    pub(crate) collection: String,
    /// The certificate authorities to trust, instead of those of the system.
    pub(crate) root_certificates: Option<PathBuf>,
    /// The number of chunks up to which every vector is compared with the query.
    pub(crate) exact_max_chunks: u64,
    /// How long a search waits for an answer of the server.
    pub(crate) search_limit: Duration,
    /// Without credentials.
    pub(crate) location: String,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.location)
    }
}

impl Address {
    /// Parses a URL, and completes it from the environment.
    pub(crate) fn parse(url: &str) -> Result<Self, DocsError> {
        Self::parse_with(url, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn parse_with(url: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, DocsError> {
        // The URL may have a password, so no message repeats it.
        let invalid = |problem: &str| DocsError::Store {
            location: "the address of the database".to_owned(),
            problem: format!(
                "{problem}; write postgres://USER@HOST/DATABASE?collection=NAME and set PGPASSWORD"
            ),
        };
        let (before, query) = url.split_once('?').unwrap_or((url, ""));
        if !is_address(url) {
            return Err(invalid("it does not start with postgres://"));
        }
        let mut own = Vec::new();
        let mut rest = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| invalid("an option has no value"))?;
            match key {
                "collection" | "sslmode" | "sslrootcert" | "service" => {
                    let value = decode(value).ok_or_else(|| invalid("an option is not UTF-8"))?;
                    own.push((key.to_owned(), value));
                }
                _ => rest.push(pair),
            }
        }
        let plain = match rest.is_empty() {
            true => before.to_owned(),
            false => format!("{before}?{}", rest.join("&")),
        };
        let mut config: Config = plain.parse().map_err(|_| invalid("it cannot be read"))?;
        let find =
            |key: &str| own.iter().find(|(own, _)| own == key).map(|(_, value)| value.clone());
        let mut settings = Vec::new();
        if let Some(service) = find("service").or_else(|| variable("PGSERVICE")) {
            settings =
                service_settings(&service, &variable).map_err(|problem| invalid(&problem))?;
        }
        let from_variables = VARIABLES.iter();
        settings.extend(
            from_variables
                .filter_map(|(name, key)| variable(name).map(|value| ((*key).to_owned(), value))),
        );
        // What the URL says comes first, then the service file, then variables.
        let setting = |key: &str| {
            find(key).or_else(|| {
                settings.iter().find(|(own, _)| own == key).map(|(_, value)| value.clone())
            })
        };
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            let host = setting("host").unwrap_or_else(|| "localhost".to_owned());
            host.split(',').for_each(|host| _ = config.host(host));
        }
        if config.get_ports().is_empty()
            && let Some(port) = setting("port")
        {
            config.port(port.parse().map_err(|_| invalid("the port is not a number"))?);
        }
        if config.get_user().is_none() {
            let user = setting("user").or_else(|| variable("USER"));
            config.user(user.unwrap_or_else(|| "postgres".to_owned()));
        }
        if config.get_password().is_none()
            && let Some(password) = setting("password")
        {
            config.password(password);
        }
        if config.get_dbname().is_none() {
            let name = setting("dbname").or_else(|| config.get_user().map(str::to_owned));
            config.dbname(name.unwrap_or_default());
        }
        if config.get_connect_timeout().is_none() {
            let seconds = setting("connect_timeout").and_then(|seconds| seconds.parse().ok());
            let seconds = seconds.filter(|seconds| *seconds > 0).unwrap_or(10);
            config.connect_timeout(Duration::from_secs(seconds));
        }
        // A server that is gone ends a call without a limit, too.
        config.keepalives_idle(config.get_keepalives_idle().min(MAX_KEEPALIVE));
        // Whatever the mode, a certificate is verified: `require` is `verify-full`.
        config.ssl_mode(match setting("sslmode").as_deref() {
            Some("disable") => SslMode::Disable,
            None | Some("allow" | "prefer") => SslMode::Prefer,
            Some("require" | "verify-ca" | "verify-full") => SslMode::Require,
            Some(_) => return Err(invalid("sslmode is not disable, prefer or verify-full")),
        });
        config.application_name("pannier");
        let collection = find("collection").unwrap_or_else(|| DEFAULT_COLLECTION.to_owned());
        if collection.is_empty() || collection.len() > MAX_NAME_BYTES || collection.contains('\0') {
            return Err(invalid("the name of a collection has 1 to 128 bytes and no NUL"));
        }
        let location = location(&config, &collection);
        let root_certificates = setting("sslrootcert").filter(|path| path != "system");
        let root_certificates = root_certificates.map(PathBuf::from);
        let exact_max_chunks = EXACT_MAX_CHUNKS;
        let search_limit = SEARCH_LIMIT;
        Ok(Self { config, collection, root_certificates, exact_max_chunks, search_limit, location })
    }

    /// Names another collection of the same database.
    pub(crate) fn with_collection(mut self, name: &str) -> Result<Self, DocsError> {
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains('\0') {
            let problem = "the name of a collection has 1 to 128 bytes and no NUL".to_owned();
            return Err(DocsError::Store { location: self.location, problem });
        }
        self.collection = name.to_owned();
        self.location = location(&self.config, name);
        Ok(self)
    }
}

/// Returns the address without credentials.
fn location(config: &Config, collection: &str) -> String {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(host) => host.clone(),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    });
    let hosts = hosts.collect::<Vec<_>>().join(",");
    let port = match config.get_ports() {
        [port] if *port != 5432 => format!(":{port}"),
        _ => String::new(),
    };
    let database = config.get_dbname().unwrap_or_default();
    let collection: String = collection.chars().filter(|c| !c.is_control()).collect();
    format!("postgres://{hosts}{port}/{database}?collection={collection}")
}

/// Decodes percent escapes.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        match (byte, after) {
            (b'%', [high, low, after @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = after;
            }
            _ => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).ok()
}

/// Reads the section of a service from its file.
fn service_settings(
    service: &str,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<Vec<(String, String)>, String> {
    let file = variable("PGSERVICEFILE")
        .map(PathBuf::from)
        .or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".pg_service.conf")));
    let text = file.and_then(|file| std::fs::read_to_string(file).ok());
    let text = text.ok_or("the service file cannot be read")?;
    let mut lines = text.lines().map(str::trim);
    let heading = format!("[{service}]");
    lines.find(|line| *line == heading).ok_or("the service file has no such service")?;
    let own = lines.take_while(|line| !line.starts_with('['));
    let own = own.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let settings = own.filter_map(|line| line.split_once('='));
    Ok(settings.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str, variables: &[(&str, &str)]) -> Result<Address, DocsError> {
        Address::parse_with(url, |name| {
            variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_url_comes_before_variables() {
        let variables =
            [("PGHOST", "other"), ("PGPORT", "99"), ("PGPASSWORD", "geheim"), ("PGUSER", "u")];
        let address = parse("postgres://me@db:7/team?collection=a%20b", &variables).unwrap();
        assert_eq!(address.location, "postgres://db:7/team?collection=a b");
        assert_eq!(address.config.get_user(), Some("me"));
        assert_eq!(address.config.get_password(), Some(&b"geheim"[..]));
        let address = parse("postgresql://", &variables).unwrap();
        assert_eq!(address.location, "postgres://other:99/u?collection=default");
    }

    #[test]
    fn no_text_of_an_address_has_the_password() {
        let address = parse("postgres://me:hunter2@db/team?sslmode=require", &[]).unwrap();
        assert!(!format!("{address:?} {}", address.location).contains("hunter2"));
        assert_eq!(address.config.get_ssl_mode(), SslMode::Require);
        for url in [
            "postgres://me:hunter2@db:port/team",
            "postgres://me:hunter2@db/team?sslmode=sometimes",
            "postgres://me:hunter2@db/team?collection=",
            "postgres://me:hunter2@db/team?collection=%00",
            "postgres://me:hunter2@db/team?collection=%ff",
            "postgres://me:hunter2@db/team?collection",
            "postgres://me:hunter2@db/team?service=none",
            "http://me:hunter2@db/team",
        ] {
            let error = parse(url, &[]).unwrap_err().to_string();
            assert!(!error.contains("hunter2") && error.contains("postgres://USER"), "{error}");
        }
    }

    #[test]
    fn a_service_file_completes_an_address() {
        let file = std::env::temp_dir().join(format!("pannier-service-{}", std::process::id()));
        std::fs::write(
            &file,
            "[one]\nhost=x\n[two]\n# a comment\nhost = y\npassword=s\ndbname=d\n",
        )
        .unwrap();
        let variables =
            [("PGSERVICEFILE", file.to_str().unwrap()), ("PGHOST", "z"), ("PGUSER", "u")];
        let address = parse("postgres://?service=two", &variables).unwrap();
        assert_eq!(address.location, "postgres://y/d?collection=default");
        assert_eq!(address.config.get_password(), Some(&b"s"[..]));
        assert!(parse("postgres://?service=three", &variables).is_err());
        std::fs::remove_file(&file).unwrap();
    }
}
