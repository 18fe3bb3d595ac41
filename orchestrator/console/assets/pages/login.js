// The page for people without a session.
import { html, useState } from "../lib/ui.js";
import { send } from "../lib/api.js";

/** @param {{done: (session: any) => void}} props */
export function Login({ done }) {
  const [wrong, setWrong] = useState("");
  const enter = async (event) => {
    event.preventDefault();
    const token = new FormData(event.target).get("token");
    try {
      done(await send("session", { token }));
    } catch (error) {
      setWrong(error.message);
    }
  };
  return html`<main class="alone">
    <form class="panel login" onSubmit=${enter}>
      <img src="/icon.svg" alt="" width="44" height="44" />
      <h1>Allot console</h1>
      <label>Token <input name="token" type="password" autocomplete="current-password" required autofocus /></label>
      <p class="hint">A viewer's token looks; an operator's token also acts.</p>
      ${wrong ? html`<p class="trouble" role="alert">${wrong}</p>` : null}
      <button type="submit" class="main">Log in</button>
    </form>
  </main>`;
}
