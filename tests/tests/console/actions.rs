//! What tests do on a page: open it, wait for a text, and press buttons.

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
