// The console's page: navigation, the session, and one of the pages.
import { html, render, useCallback, useEffect, useLayoutEffect, useState } from "./lib/ui.js";
import { get, onLeave, send } from "./lib/api.js";
import { follow, useAddress, link } from "./lib/address.js";
import { isUtc, number, setUtc, time, zone } from "./lib/format.js";
import { useLive } from "./lib/live.js";
import { Reading } from "./lib/parts.js";
import { badge, title } from "./lib/title.js";
import { Login } from "./pages/login.js";
import { Overview } from "./pages/overview.js";
import { ShowPage } from "./pages/show.js";
import { RealmPage } from "./pages/realm.js";
import { PoolPage } from "./pages/pool.js";
import { CompactionPage } from "./pages/compaction.js";
import { ActionsPage } from "./pages/actions.js";
import { AccountsPage } from "./pages/accounts.js";

/** The pages whose address names a key; without one they need the list of keys. */
const OF_KEYS = ["show", "realm", "pool", "accounts"];
const PAGES = [
  { name: "overview", title: "Overview", page: Overview },
  { name: "show", title: "Shows", page: ShowPage },
  { name: "realm", title: "Realm", page: RealmPage },
  { name: "pool", title: "Pools", page: PoolPage },
  { name: "compaction", title: "Compaction", page: CompactionPage },
  { name: "accounts", title: "Accounts", page: AccountsPage },
  { name: "actions", title: "Actions", page: ActionsPage },
];

function App() {
  const [session, setSession] = useState(null);
  const [trouble, setTrouble] = useState("");
  const [utc, setZone] = useState(isUtc());
  const { page: name, chosen } = useAddress();
  const check = useCallback(() => {
    get("session").then((found) => { setSession(found); setTrouble(""); }, (error) => {
      setTrouble(error.message);
      setTimeout(check, 2000);
    });
  }, []);
  useEffect(check, []);
  // The address stays: who logs in again sees the same page. The refusal may be of the session before this one.
  useEffect(() => onLeave(() => {
    setSession((old) => old && { ...old, access: "none" });
    check();
  }), []);
  const looks = session && session.access !== "none";
  const live = useLive(looks ? "keys" : null);
  const current = PAGES.find((page) => page.name === name) || PAGES[0];
  useEffect(() => {
    // On a narrow page the tabs are scrolled.
    document.querySelector(".tab[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [current, looks]);
  const { alerts } = live;
  useEffect(() => { badge(alerts.length); }, [alerts.length]);
  // Before the effects of the page, which names what it shows.
  useLayoutEffect(() => { title(`${current.title} · Allot`); }, [current]);
  useEffect(() => {
    const say = () => {
      const place = document.querySelector(".printed");
      if (place) place.textContent = `${time(Date.now())}, ${location.href}`;
    };
    addEventListener("beforeprint", say);
    return () => removeEventListener("beforeprint", say);
  }, []);
  if (!session) return html`<main class="alone"><p>${trouble ? `The console does not answer: ${trouble}` : "…"}</p>
    </main>`;
  if (!looks) return html`<${Login} done=${setSession} />`;
  const { keys = [], more = [] } = live.state || {};
  const leave = () => send("session", {}, "DELETE").then(setSession, (error) => setTrouble(error.message));
  return html`
    <div class="shell" onClick=${follow}>
      <a class="skip" href="#content">Skip to the page</a>
      <nav aria-label="Pages">
        <a class="brand" href="/"><img src="/icon.svg" alt="" width="28" height="28" /><span>Allot</span></a>
        ${PAGES.map((page) => html`<a class="tab" href=${link(page.name)}
          aria-current=${page === current ? "page" : undefined}>${page.title}</a>`)}
        <span class="space"></span>
        <button type="button" class="quiet zone" aria-pressed=${utc}
          title="Times in UTC, or in the zone of this browser"
          onClick=${() => { setUtc(!utc); setZone(!utc); }}>${zone()}</button>
        <${Health} live=${live} />
        ${session.tokens ? html`<button type="button" class="quiet"
          title=${trouble} onClick=${leave}>Log out (${session.user || session.access})</button>`
          : session.user ? html`<span class="hint">${session.user}</span>` : null}
      </nav>
      <p class="printed"></p>
      <div class="alerts" role="alert">${alerts.map(({ rule, since, value }) => html`<p class="trouble"><b>${rule}</b>
        ${" "}since ${time(since)}, now ${number(Math.round(value * 10) / 10)}</p>`)}</div>
      <main id="content" class=${current.name} tabindex="-1">
        ${live.state || chosen.key || !OF_KEYS.includes(current.name)
          ? html`<${current.page} key=${`${current.name}${utc}`} keys=${keys} more=${more} chosen=${chosen}
          can=${session.access === "operator"} />`
          : html`<${Reading} trouble=${live.trouble} what="the list of keys" />`}
      </main>
    </div>`;
}

/** Whether Redis answers, on every page. */
function Health({ live }) {
  const state = live.trouble ? "bad" : live.state ? "good" : "wait";
  const who = live.trouble?.code === "console-away" ? "The console" : "Redis";
  const said = live.trouble ? `${who} is away` : live.state ? "live" : "connecting";
  return html`<span class=${`health ${state}`} role="status" title=${live.trouble?.message || ""}>${said}</span>`;
}

render(html`<${App} />`, /** @type {Element} */ (document.getElementById("app")));
