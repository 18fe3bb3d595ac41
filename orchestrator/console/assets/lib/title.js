// The title of the window: what the page shows, after the number of alerts.

let text = document.title, count = 0;

const show = () => { document.title = `${count ? `(${count}) ` : ""}${text}`; };

/** @param {string} named */
export function title(named) {
  text = named;
  show();
}

/** @param {number} alerts */
export function badge(alerts) {
  count = alerts;
  show();
}
