//! What tests do on a page: open it, wait for a text, and press buttons.

use std::fs;

use allot_tests::RedisServer;
use allot_tests::browser::Browser;
use allot_tests::consoles::Console;

use crate::SOON;

/// The text of the page's content.
pub(crate) const TEXT: &str = "document.querySelector('main').innerText";

pub(crate) fn opened(console: &Console, path: &str) -> Browser {
    let browser = Browser::start();
    browser.go(&console.address(path));
    browser
}

pub(crate) fn shows(browser: &Browser, text: &str) {
    browser.wait_for(text, &format!("{TEXT}.includes({text:?})"), SOON);
}

/// Logs in with this token, where the page asks for it.
pub(crate) fn log_in(browser: &Browser, token: &str) {
    browser.wait_for("the login", "document.querySelector('.login')", SOON);
    browser.run(&format!(
        "document.querySelector('.login input').value = '{token}';
        document.querySelector('.login').requestSubmit()"
    ));
}

/// A console that wants this token, and a page of it.
pub(crate) fn opened_with_token(server: &RedisServer, token: &str, path: &str) -> (Console, Browser) {
    let file = server.dir().join("token");
    fs::write(&file, token).unwrap();
    let file = file.to_str().unwrap();
    let tokens = ["--console-viewer-token-file", file, "--console-operator-token-file", file];
    let console = Console::start(server, &tokens);
    let browser = opened(&console, path);
    (console, browser)
}

/// Says yes to the question of the page, if it asks one.
pub(crate) fn answer(browser: &Browser, typed: &str) {
    browser.run(&format!(
        "return new Promise((done) => setTimeout(() => {{
            const form = document.querySelector('dialog[open] form');
            if (form?.elements.typed) form.elements.typed.value = {typed:?};
            form?.requestSubmit();
            done(1);
        }}, 100))"
    ));
}

/// Clicks the first button with this text, and says yes to the question.
pub(crate) fn click(browser: &Browser, text: &str) {
    let button =
        format!("[...document.querySelectorAll('main button')].find((one) => one.textContent === {text:?})");
    browser.wait_for(text, &button, SOON);
    browser.run(&format!("({button}).click()"));
    answer(browser, "");
}
