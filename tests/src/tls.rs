//! Certificates for servers on loopback, by a CA of their own.

use std::fs;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A CA and a certificate for loopback by it, as files.
#[derive(Debug)]
pub struct Certificates {
    dir: TempDir,
}

impl Certificates {
    /// New ones, good for two days.
    #[must_use]
    #[track_caller]
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("allot-tls-").tempdir().expect("a temporary folder");
        let names = "subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\n";
        fs::write(dir.path().join("leaf.ext"), names).expect("the temporary folder is writable");
        for line in [
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=test-ca",
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout leaf.key -out leaf.csr -subj /CN=localhost",
            "x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out leaf.pem -days 2 -extfile leaf.ext",
        ] {
            let status = Command::new("openssl")
                .args(line.split(' '))
                .current_dir(dir.path())
                .stderr(Stdio::null())
                .status()
                .expect("openssl runs");
            assert!(status.success(), "openssl {line}");
        }
        Self { dir }
    }

    /// The path of one of the files: `ca.pem`, `leaf.pem`, `leaf.key`, or another that is put there.
    #[must_use]
    pub fn file(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Settings of a Redis server, or a Sentinel, that has these and asks nobody for a certificate.
    #[must_use]
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            ("tls-cert-file", self.file("leaf.pem")),
            ("tls-key-file", self.file("leaf.key")),
            ("tls-ca-cert-file", self.file("ca.pem")),
            ("tls-auth-clients", "no".to_owned()),
        ]
    }
}

impl Default for Certificates {
    fn default() -> Self {
        Self::new()
    }
}
