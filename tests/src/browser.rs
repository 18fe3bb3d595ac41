//! A real browser: Chromium without a window, driven by its `chromedriver` (the WebDriver protocol, which is JSON by HTTP).

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::child::ChildProcess;
use crate::http::request;
use crate::launch::free_port;
use crate::wait::{TIMEOUT, eventually};

/// A browser with one page.
pub struct Browser {
    port: u16,
    session: String,
    _driver: ChildProcess,
    _dir: TempDir,
}

impl Browser {
    /// Starts a browser with a page of this size, in pixels.
    #[track_caller]
    pub fn start(width: u32, height: u32) -> Self {
        let dir = tempfile::Builder::new().prefix("allot-browser-").tempdir().expect("a temporary folder");
        let port = free_port();
        let driver = ChildProcess::new("chromedriver", dir.path().join("log"));
        driver.spawn(Command::new("chromedriver").arg(format!("--port={port}")));
        eventually("chromedriver to listen", TIMEOUT, || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        let arguments = [
            "--headless".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-quic".to_owned(),
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            format!("--window-size={width},{height}"),
            format!("--user-data-dir={}", dir.path().join("profile").display()),
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}}});
        let mut browser = Self { port, session: String::new(), _driver: driver, _dir: dir };
        let opened = browser.call("POST /session", &wanted);
        opened["sessionId"].as_str().expect("a session").clone_into(&mut browser.session);
        browser
    }

    #[track_caller]
    fn call(&self, what: &str, body: &Value) -> Value {
        let headers = [("Content-Type", "application/json")];
        let text = if what.starts_with("GET") { String::new() } else { body.to_string() };
        let answer = request(self.port, what, &headers, &text);
        assert_eq!(answer.status, 200, "{what}: {}", answer.body);
        answer.json()["value"].clone()
    }

    /// Goes to an address.
    #[track_caller]
    pub fn go(&self, address: &str) {
        self.call(&format!("POST /session/{}/url", self.session), &json!({"url": address}));
    }

    /// Runs a function body in the page, and returns what it returns.
    #[track_caller]
    pub fn run(&self, script: &str) -> Value {
        let body = json!({"script": script, "args": []});
        self.call(&format!("POST /session/{}/execute/sync", self.session), &body)
    }

    /// Waits until an expression is true in the page.
    #[track_caller]
    pub fn wait_for(&self, what: &str, expression: &str, limit: Duration) {
        eventually(what, limit, || self.run(&format!("return Boolean({expression})")) == json!(true));
    }

    /// Calls a method of the browser's own protocol for debuggers.
    #[track_caller]
    fn debugger(&self, method: &str, parameters: &Value) {
        let body = json!({"cmd": method, "params": parameters});
        self.call(&format!("POST /session/{}/goog/cdp/execute", self.session), &body);
    }

    /// Gives pages the colour scheme `light` or `dark`.
    #[track_caller]
    pub fn prefer(&self, scheme: &str) {
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        self.debugger("Emulation.setEmulatedMedia", &json!({"features": [feature]}));
    }

    /// Gives pages the size of a phone, in pixels.
    #[track_caller]
    pub fn narrow(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": true});
        self.debugger("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Errors that the page has logged.
    #[track_caller]
    pub fn errors(&self) -> Vec<String> {
        let log = self.call(&format!("POST /session/{}/se/log", self.session), &json!({"type": "browser"}));
        let entries = log.as_array().cloned().unwrap_or_default();
        let severe = entries.iter().filter(|entry| entry["level"] == "SEVERE");
        severe.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            request(self.port, &format!("DELETE /session/{}", self.session), &[], "");
        }
    }
}
