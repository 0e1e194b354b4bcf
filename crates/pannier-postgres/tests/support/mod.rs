//! A server of PostgreSQL for the tests of a process, with a fresh database for each.

#![allow(dead_code, clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pannier_docs::{
    BuildOptions, DocumentIndex, DocumentSource, Embedder, EmbedderError, Model, build,
};
use pannier_postgres::Database;

/// A number for names that differ within a process.
pub(crate) fn unique() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A folder that is removed at the end.
#[derive(Debug)]
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        let name = format!("pannier-pg-{}-{}", std::process::id(), unique());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(path.join("docs")).unwrap();
        Self(path)
    }

    pub(crate) fn docs(&self) -> PathBuf {
        self.0.join("docs")
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.docs().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Builds the folder's index, and opens it.
    pub(crate) fn index(&self, options: &BuildOptions<'_>) -> DocumentIndex {
        let (source, index) = (DocumentSource::new(self.docs()), self.0.join("index"));
        build(&source, &index, options, &mut |_| {}).unwrap();
        DocumentIndex::open(&index).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server. It ends when this process ends, also after a crash: a shell waits for the end of its input.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) folder: PathBuf,
    programs: PathBuf,
    shell: Child,
}

impl Server {
    /// Starts a server. `PANNIER_SERVER` names the folder of one that runs, with its
    /// socket and its number in a file `pid`, so that a large collection can be measured again.
    pub(crate) fn start() -> Result<Self, String> {
        let programs = std::env::var_os("PANNIER_POSTGRES")
            .ok_or("PANNIER_POSTGRES is not set; see .ci/postgres")?;
        if let Some(folder) = std::env::var_os("PANNIER_SERVER") {
            let shell = Command::new("true").spawn().map_err(|error| error.to_string())?;
            return Ok(Self { folder: folder.into(), programs: programs.into(), shell });
        }
        let folder =
            std::env::temp_dir().join(format!("pannier-pgd-{}-{}", std::process::id(), unique()));
        fs::create_dir_all(&folder).unwrap();
        // The server runs as another user if this one is root.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let mut programs = PathBuf::from(programs);
        if !as_user(&programs.join("postgres"))
            .arg("--version")
            .output()
            .is_ok_and(|out| out.status.success())
        {
            // That user may not read the folder of this one.
            let root =
                programs.ancestors().nth(3).ok_or("PANNIER_POSTGRES is no folder of programs")?;
            let copy = folder.join("programs");
            let copied = Command::new("cp").arg("-r").arg(root).arg(&copy).status();
            let inner = programs.strip_prefix(root).map_err(|error| error.to_string())?;
            programs = copy.join(inner);
            let works = as_user(&programs.join("postgres")).arg("--version").output();
            if !copied.is_ok_and(|status| status.success())
                || !works.is_ok_and(|out| out.status.success())
            {
                return Err("its programs cannot be run".to_owned());
            }
        }
        let data = folder.join("data");
        let made = as_user(&programs.join("initdb"))
            .args(["-U", "pannier", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"])
            .arg(&data)
            .output()
            .map_err(|error| error.to_string())?;
        if !made.status.success() {
            return Err(format!("initdb fails: {}", String::from_utf8_lossy(&made.stderr)));
        }
        let shell = Self::run(&programs, &folder);
        let server = Self { folder, programs, shell };
        server.wait();
        Ok(server)
    }

    /// Starts a standby that follows this server.
    pub(crate) fn replicate(&self) -> Self {
        let folder =
            std::env::temp_dir().join(format!("pannier-pgd-{}-{}", std::process::id(), unique()));
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let made = as_user(&self.programs.join("pg_basebackup"))
            .args(["-U", "pannier", "-R", "-c", "fast", "-h"])
            .arg(&self.folder)
            .arg("-D")
            .arg(folder.join("data"))
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let shell = Self::run(&self.programs, &folder);
        let server = Self { folder, programs: self.programs.clone(), shell };
        server.wait();
        server
    }

    fn run(programs: &Path, folder: &Path) -> Child {
        let user: Vec<String> = user_prefix();
        let script = format!(
            "{} '{p}/postgres' -D '{f}/data' -k '{f}' -c listen_addresses= -c fsync=off -c max_connections=60 {options} \
             >'{f}/log' 2>&1 & own=$!; echo $own > '{f}/pid'; read _; kill -INT $own; wait $own; \
             [ -e '{f}/keep' ] || rm -rf '{f}'",
            user.join(" "),
            options = std::env::var("PANNIER_POSTGRES_OPTIONS").unwrap_or_default(),
            p = programs.display(),
            f = folder.display()
        );
        let mut shell = Command::new("sh");
        shell
            .arg("-c")
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        shell.spawn().unwrap()
    }

    fn wait(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let ready =
                Command::new(self.programs.join("pg_isready")).arg("-h").arg(&self.folder).output();
            if ready.is_ok_and(|out| out.status.success()) {
                return;
            }
            assert!(Instant::now() < deadline, "{:?}", fs::read_to_string(self.folder.join("log")));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns whether a process works in the folder of the data, where the system lists processes.
    fn has_children(&self) -> bool {
        let Ok(data) = self.folder.join("data").canonicalize() else { return false };
        let Ok(mut processes) = fs::read_dir("/proc") else { return false };
        processes.any(|process| {
            process.is_ok_and(|process| {
                fs::read_link(process.path().join("cwd")).is_ok_and(|folder| folder == data)
            })
        })
    }

    /// Kills the server, and starts it again.
    pub(crate) fn crash(&mut self) {
        fs::write(self.folder.join("keep"), "").unwrap();
        let pid = fs::read_to_string(self.folder.join("pid")).unwrap();
        // The process of the server is the one that the shell has started, or its child.
        let killed = Command::new("kill").args(["-9", pid.trim()]).status().unwrap();
        assert!(killed.success());
        drop(self.shell.stdin.take());
        self.shell.wait().unwrap();
        // Its children end by themselves, and the socket and the shared memory are free then.
        let deadline = Instant::now() + Duration::from_secs(60);
        std::thread::sleep(Duration::from_millis(200));
        while self.has_children() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
        }
        self.shell = Self::run(&self.programs, &self.folder);
        self.wait();
        fs::remove_file(self.folder.join("keep")).unwrap();
    }

    /// Creates a database, and returns its address.
    pub(crate) fn database(&self) -> String {
        let name = format!("test{}", unique());
        self.create(&name);
        self.address(&name)
    }

    /// Creates a database with a name.
    fn create(&self, name: &str) {
        let made = Command::new(self.programs.join("createdb"))
            .args(["-U", "pannier", "-h"])
            .arg(&self.folder)
            .arg(name)
            .output()
            .unwrap();
        let is_there = std::env::var_os("PANNIER_SERVER").is_some();
        let message = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success() || is_there, "{message}");
    }

    pub(crate) fn address(&self, database: &str) -> String {
        format!("postgres://pannier@/{database}?host={}", self.folder.display())
    }

    /// Starts psql, which runs the SQL of its input.
    pub(crate) fn psql(&self, address: &str) -> Child {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-qAt", "-v", "ON_ERROR_STOP=1", "-d", address]).stdin(Stdio::piped());
        psql.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs SQL with psql, and returns the output.
    pub(crate) fn sql(&self, address: &str, sql: &str) -> String {
        let mut child = self.psql(address);
        child.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

fn user_prefix() -> Vec<String> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    match is_root {
        false => vec!["exec".to_owned()],
        true => "exec setpriv --reuid nobody --regid nogroup --clear-groups"
            .split(' ')
            .map(str::to_owned)
            .collect(),
    }
}

/// Returns a command that runs as a user that PostgreSQL accepts.
fn as_user(program: &Path) -> Command {
    let prefix = user_prefix();
    let mut command = match prefix.as_slice() {
        [_] => Command::new(program),
        [_, first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
        [] => unreachable!(),
    };
    command.current_dir("/");
    command
}

/// Prints what is skipped, even where the output of tests is captured.
pub(crate) fn print_skipped(message: &str) {
    // In one piece: other tests write, too.
    let _ = std::io::stderr().write_all(format!("skipped: {message}\n").as_bytes());
}

/// Returns whether there are programs of PostgreSQL, or prints once why tests are skipped.
pub(crate) fn has_programs() -> bool {
    static HAS_PROGRAMS: OnceLock<bool> = OnceLock::new();
    *HAS_PROGRAMS.get_or_init(|| {
        let has_programs = std::env::var_os("PANNIER_POSTGRES").is_some();
        if !has_programs {
            print_skipped("PostgreSQL: PANNIER_POSTGRES is not set; see .ci/postgres");
        }
        has_programs
    })
}

/// Returns the server of this process, or prints why a test is skipped.
pub(crate) fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Server> = OnceLock::new();
    has_programs().then(|| SERVER.get_or_init(|| Server::start().unwrap()))
}

/// Whether the longer form of a test runs.
pub(crate) fn is_long() -> bool {
    std::env::var_os("PANNIER_LONG").is_some_and(|long| !long.is_empty())
}

/// Returns a fresh database with its address, or prints why a test is skipped.
pub(crate) fn database() -> Option<(Database, String)> {
    let address = server()?.database();
    Some((Database::new(&address).unwrap(), address))
}

/// A deterministic sequence of numbers.
#[derive(Debug)]
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }

    /// Returns a text of words, of which some are frequent.
    pub(crate) fn text(&mut self, words: usize, vocabulary: usize) -> String {
        let mut text = String::new();
        for number in 0..words {
            let end = 1 + self.next(vocabulary);
            let word = self.next(end);
            text.push_str(&format!("word{word}"));
            text.push(if number % 11 == 10 { '\n' } else { ' ' });
        }
        text
    }
}

/// An embedder for tests: hashes of words as directions.
#[derive(Debug)]
pub(crate) struct HashEmbedder(pub(crate) Model);

impl HashEmbedder {
    pub(crate) fn new(dimensions: u32) -> Self {
        Self(Model::new("hash", format!("{dimensions:064}"), dimensions))
    }
}

impl Embedder for HashEmbedder {
    fn model(&self) -> &Model {
        &self.0
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<i16>>, EmbedderError> {
        let dimensions = self.0.dimensions as usize;
        let embed = |text: &&str| {
            let mut sum = vec![0.01_f32; dimensions];
            for word in text.split_whitespace() {
                let seed = word.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
                    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
                });
                let mut numbers = Numbers(seed | 1);
                sum.iter_mut().for_each(|own| *own += numbers.next(2_001) as f32 / 1_000.0 - 1.0);
            }
            pannier_docs::quantize(&sum).unwrap_or_else(|| vec![0; dimensions])
        };
        Ok(texts.iter().map(embed).collect())
    }
}
