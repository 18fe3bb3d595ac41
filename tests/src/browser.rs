//! A real browser: Chromium without a window, driven by its `chromedriver` (the WebDriver protocol, which is JSON by HTTP).

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::http::request;
use crate::wait::{TIMEOUT, eventually};

/// Browsers that no test uses at the moment. Most tests take less processor time than the start of a browser.
static IDLE: Mutex<Vec<Running>> = Mutex::new(Vec::new());

/// A page of a browser that no other test uses.
pub struct Browser {
    running: Option<Running>,
}

/// A driver and its browser. Both end when this value is dropped, and when the test program ends.
struct Running {
    port: u16,
    session: String,
    _driver: Child,
}

/// Runs `chromedriver` in a folder until standard input ends, and deletes the folder then. A browser that is driven by
/// a pipe ends with its driver. It may still write for a moment.
const DRIVER: &str = r#"trap : INT TERM HUP
command -v chromedriver || exit
chromedriver --port=0 &
read -r _
kill $!
wait $!
for _ in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf "$TMPDIR"
    sleep 1
    [ -e "$TMPDIR" ] || break
done"#;

/// The size of a page, in pixels.
const SIZE: (u32, u32) = (1300, 900);

impl Running {
    #[track_caller]
    fn start() -> Self {
        let dir =
            tempfile::Builder::new().prefix("allot-browser-").tempdir().expect("a temporary folder").keep();
        let path = dir.join("log");
        let log = File::create(&path).expect("the temporary folder is writable");
        let driver = Command::new("sh")
            .args(["-c", DRIVER])
            .env("TMPDIR", &dir)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("the log opens"))
            .stderr(log)
            .spawn();
        let mut driver = driver.expect("a shell runs");
        let mut port = None;
        eventually("chromedriver to listen", TIMEOUT, || {
            let log = fs::read_to_string(&path).unwrap_or_default();
            assert!(matches!(driver.try_wait(), Ok(None)), "chromedriver does not run (`make deps`): {log}");
            let told = log.split("successfully on port ").nth(1).and_then(|rest| rest.split('.').next());
            port = told.and_then(|port| port.parse().ok());
            port.is_some()
        });
        let port = port.expect("it was waited for");
        let mut running = Self { port, session: String::new(), _driver: driver };
        let arguments = [
            "--headless".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-quic".to_owned(),
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            "--remote-debugging-pipe".to_owned(),
            format!("--window-size={},{}", SIZE.0, SIZE.1),
            format!("--user-data-dir={}", dir.join("profile").display()),
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}}});
        let opened = running.call("POST /session", &wanted);
        opened["sessionId"].as_str().expect("a session").clone_into(&mut running.session);
        running
    }

    #[track_caller]
    fn call(&self, what: &str, body: &Value) -> Value {
        let headers = [("Content-Type", "application/json")];
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let answer = request(self.port, what, &headers, &text);
        assert_eq!(answer.status, 200, "{what}: {}", answer.body);
        answer.json()["value"].clone()
    }
}

impl Browser {
    /// A browser with an empty page of 1300 x 900 pixels.
    #[track_caller]
    pub fn start() -> Self {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Self { running: Some(idle.unwrap_or_else(Running::start)) }
    }

    /// Opens a further window, which is seen as well as the others, and goes on in it. Returns the window.
    #[track_caller]
    pub fn open_window(&self) -> String {
        let window = self.call("POST", "window/new", &json!({"type": "window"}))["handle"].clone();
        let window = window.as_str().expect("a window").to_owned();
        self.enter(&window);
        window
    }

    /// Goes on in another window.
    #[track_caller]
    pub fn enter(&self, window: &str) {
        self.call("POST", "window", &json!({"handle": window}));
    }

    /// Resets the browser for the next test.
    fn clear(&self) {
        let windows = self.call("GET", "window/handles", &Value::Null);
        let windows: Vec<&str> = windows.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for window in windows.iter().skip(1) {
            self.enter(window);
            self.call("DELETE", "window", &Value::Null);
        }
        windows.iter().take(1).for_each(|window| self.enter(window));
        self.go("about:blank");
        self.media("");
        self.zone("");
        self.debugger("Emulation.clearDeviceMetricsOverride", &json!({}));
        self.debugger("Network.clearBrowserCookies", &json!({}));
        self.errors();
    }

    /// Calls the driver: a method and a path below the session.
    #[track_caller]
    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let running = self.running.as_ref().expect("it is there until this is dropped");
        running.call(&format!("{method} /session/{}/{path}", running.session), body)
    }

    /// Goes to an address.
    #[track_caller]
    pub fn go(&self, address: &str) {
        self.call("POST", "url", &json!({"url": address}));
    }

    /// Runs a function body in the page, and returns what it returns.
    #[track_caller]
    pub fn run(&self, script: &str) -> Value {
        let body = json!({"script": script, "args": []});
        self.call("POST", "execute/sync", &body)
    }

    /// Drags with the mouse from one point of the page to another.
    #[track_caller]
    pub fn drag(&self, from: (f64, f64), to: (f64, f64)) {
        let go = |(x, y): (f64, f64), ms| {
            json!({"type": "pointerMove", "duration": ms, "origin": "viewport",
                "x": x.round() as i64, "y": y.round() as i64})
        };
        let press = |kind: &str| json!({"type": kind, "button": 0});
        let steps = [go(from, 0), press("pointerDown"), go(to, 100), press("pointerUp")];
        let mouse = json!({"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
            "actions": steps});
        self.call("POST", "actions", &json!({"actions": [mouse]}));
    }

    /// Taps a point of the page with a finger.
    #[track_caller]
    pub fn tap(&self, (x, y): (f64, f64)) {
        let go = json!({"type": "pointerMove", "duration": 0, "origin": "viewport",
            "x": x.round() as i64, "y": y.round() as i64});
        let press = |kind: &str| json!({"type": kind, "button": 0});
        let finger = json!({"type": "pointer", "id": "finger", "parameters": {"pointerType": "touch"},
            "actions": [go, press("pointerDown"), press("pointerUp")]});
        self.call("POST", "actions", &json!({"actions": [finger]}));
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
        self.call("POST", "goog/cdp/execute", &body);
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

    /// Gives pages that are opened from now on a time zone.
    #[track_caller]
    pub fn zone(&self, name: &str) {
        self.debugger("Emulation.setTimezoneOverride", &json!({"timezoneId": name}));
    }

    /// Shows pages as on `print`; the empty name shows them as on a screen.
    #[track_caller]
    pub fn media(&self, name: &str) {
        self.debugger("Emulation.setEmulatedMedia", &json!({"media": name, "features": []}));
    }

    /// Errors that the page has logged.
    #[track_caller]
    pub fn errors(&self) -> Vec<String> {
        let log = self.call("POST", "se/log", &json!({"type": "browser"}));
        let entries = log.as_array().cloned().unwrap_or_default();
        let severe = entries.iter().filter(|entry| entry["level"] == "SEVERE");
        severe.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // A browser of a failed test is ended, since its state is unknown.
        if !std::thread::panicking() {
            self.clear();
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).extend(self.running.take());
        }
    }
}
