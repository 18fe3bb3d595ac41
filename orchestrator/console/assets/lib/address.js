// The page's address holds its selection, so that it can be sent to a colleague.
import { useEffect, useState } from "./ui.js";

const listeners = new Set();
const changed = () => listeners.forEach((listener) => listener());
addEventListener("popstate", changed);

/** The page's name and its selection. */
export function here() {
  const page = location.pathname.replace(/^\/+/, "").split("/")[0] || "overview";
  return { page, chosen: Object.fromEntries(new URLSearchParams(location.search)) };
}

/** @param {string} page @param {Record<string, string | undefined | null>} [chosen] */
export function link(page, chosen = {}) {
  const parts = Object.entries(chosen).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(/** @type {[string, string][]} */ (parts)).toString();
  return `/${page === "overview" ? "" : page}${text ? `?${text}` : ""}`;
}

/** Goes to a page. @param {string} to @param {boolean} [replace] whether the way back leaves out where one is */
export function go(to, replace = false) {
  // Who goes where he is needs no further way back.
  const isHere = to === location.pathname + location.search;
  history[replace || isHere ? "replaceState" : "pushState"](null, "", to);
  changed();
}

/** Changes the selection of this page. @param {Record<string, string | undefined | null>} change */
export function choose(change) {
  const { page, chosen } = here();
  go(link(page, { ...chosen, ...change }), true);
}

/** Goes to a thing of this page, such as a conference. @param {Record<string, string | undefined | null>} change */
export function visit(change) {
  const { page, chosen } = here();
  go(link(page, { ...chosen, ...change }));
}

/** The page's address, drawn again when it changes. */
export function useAddress() {
  const [address, set] = useState(here());
  useEffect(() => {
    const listener = () => set(here());
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return address;
}

/** A click on a link of the page stays on the page. @param {MouseEvent} event */
export function follow(event) {
  const target = /** @type {Element} */ (event.target).closest?.("a[href^='/']");
  if (!target || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const to = target.getAttribute("href") || "/";
  if (to.startsWith("/api/")) return;
  event.preventDefault();
  go(to);
}
