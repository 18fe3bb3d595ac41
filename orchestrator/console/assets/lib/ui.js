// What every page uses of the libraries: elements, hooks, rendering.
import { createContext, h, render } from "/vendor/preact.js";
import htm from "/vendor/htm.js";

export { createContext, render };
export { useCallback, useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "/vendor/hooks.js";

/** Elements in a template: html`<p class="x">${text}</p>`. Values are text and never markup. */
export const html = htm.bind(h);
