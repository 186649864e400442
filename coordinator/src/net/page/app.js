// The frame of the page: sign-in, navigation, the view of the address, keys.
import { askOtherTabs, change, get, onSignIn, signInByCode, signOut, token } from "./api.js";
import { Admin } from "./admin.js";
import { Build } from "./builds.js";
import { Help } from "./help.js";
import { Job } from "./job.js";
import { Jobs } from "./jobs.js";
import { Loading } from "./components.js";
import { connect, useConnection } from "./live.js";
import { Overview } from "./overview.js";
import { Replacement, SignIn } from "./signin.js";
import { Tests } from "./tests.js";
import { Worker, Workers } from "./workers.js";
import { html, render, useEffect, useRef, useState } from "./vendor/htm-preact.js";

const THEME = "buildpool.theme";
const THEMES = ["auto", "light", "dark"];

/** `#/jobs/ID?attempt=2#L7` as `{ path: ["jobs", "ID"], query, line: "L7" }`. */
function parse(hash) {
  const [, address, line] = /^#?\/?([^#]*)#?(.*)$/.exec(hash);
  const [path, query] = address.split("?");
  return { path: path.split("/").filter(Boolean).map(decodeURIComponent), query: Object.fromEntries(new URLSearchParams(query)), line };
}

const CODE = /^#\/sign-in\/([0-9a-f]+)$/;

/** A code in the address signs in, once. It does not stay in the history. Another user's sign-in is not replaced without an answer of the user. */
async function takeCode() {
  const [, code] = CODE.exec(location.hash) ?? [];
  if (!code) return {};
  history.replaceState(null, "", "#/");
  try {
    const { token: secret } = await change("POST", "sign-in", { code });
    // A token that is not valid any more is signed out here.
    const now = token() && (await get("me").catch((error) => (token() ? Promise.reject(error) : null)));
    if (now) {
      const next = await get("me", { secret });
      if (now.name !== next.name || now.role !== next.role) return { offer: { secret, now, next } };
    }
    signInByCode(secret);
    return {};
  } catch (error) {
    return { error };
  }
}

function view({ path: [kind, id], query, line }, me) {
  switch (kind) {
    case undefined:
      return html`<${Overview} me=${me} />`;
    case "jobs":
      return id ? html`<${Job} key=${id} id=${id} attempt=${query.attempt} line=${line} me=${me} />` : html`<${Jobs} filter=${query} />`;
    case "builds":
      return html`<${Build} key=${id} id=${id} />`;
    case "workers":
      return id ? html`<${Worker} key=${id} name=${id} me=${me} />` : html`<${Workers} me=${me} />`;
    case "tests":
      return html`<${Tests} filter=${query} />`;
    case "admin":
      return html`<${Admin} />`;
    default:
      return html`<h1>Nothing is here</h1><p>The pool's page has no view <code>${kind}</code>. <a href="#/">Overview</a></p>`;
  }
}

/** `j` and `k` move through the rows, `/` goes to the search, `?` opens the help. */
function useKeys(openHelp) {
  useEffect(() => {
    const pressed = (event) => {
      const { target, key } = event;
      if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, select, textarea, dialog")) return;
      const rows = [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent !== null);
      const step = { j: 1, k: -1 }[key];
      if (step && rows.length > 0) {
        const at = rows.indexOf(document.activeElement);
        const next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + step, 0), rows.length - 1);
        rows[next].focus();
      } else if (key === "/") {
        const field = document.querySelector("[data-search]");
        if (!field) return;
        field.focus();
        field.select?.();
      } else if (key === "?") {
        openHelp();
      } else {
        return;
      }
      event.preventDefault();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
}

function useTheme() {
  const [theme, setTheme] = useState(localStorage.getItem(THEME) ?? "auto");
  useEffect(() => {
    // `theme.js` does the same before the first drawing.
    document.documentElement.dataset.theme = theme;
    localStorage.setItem(THEME, theme);
  }, [theme]);
  return [theme, () => setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length])];
}

function Connection() {
  const state = useConnection();
  const text = { live: "Live", lost: "Connection lost; trying again", connecting: "Connecting" }[state];
  return html`<span class=${`connection ${state}`} role="status">${text}</span>`;
}

function Navigation({ current, me }) {
  const views = [
    ["Overview", "#/", undefined],
    ["Jobs", "#/jobs", "jobs"],
    ["Workers", "#/workers", "workers"],
    ["Tests", "#/tests", "tests"],
    ...(me?.role === "admin" ? [["Admin", "#/admin", "admin"]] : []),
  ];
  return html`<nav aria-label="Views">
    ${views.map(([name, address, kind]) => html`<a key=${name} href=${address} aria-current=${kind === current ? "page" : undefined}>${name}</a>`)}
  </nav>`;
}

function App({ start }) {
  const [address, setAddress] = useState(parse(location.hash));
  const [isIn, setIn] = useState(Boolean(token()));
  const [me, setMe] = useState(null);
  const [version, setVersion] = useState("");
  const [theme, turnTheme] = useTheme();
  const [error, setError] = useState(start.error);
  const [offer, setOffer] = useState(start.offer);
  const isShown = isIn && !offer;
  const help = useRef();
  const main = useRef();
  useKeys(() => help.current?.showModal());
  useEffect(() => {
    const moved = () => {
      if (CODE.test(location.hash)) location.reload();
      const next = parse(location.hash);
      setAddress((before) => {
        if (before.path.join("/") !== next.path.join("/")) {
          scrollTo(0, 0);
          // A reader of the screen begins with the new view.
          main.current?.focus({ preventScroll: true });
        }
        return next;
      });
    };
    addEventListener("hashchange", moved);
    const signed = () => setIn(Boolean(token()));
    const end = onSignIn(signed);
    // An effect runs after the first drawing: address and sign-in may have changed between them.
    moved();
    signed();
    return () => {
      removeEventListener("hashchange", moved);
      end();
    };
  }, []);
  const load = () => {
    get("me").then((answer) => {
      setError(null);
      setMe(answer);
    }, setError);
    get("health").then((health) => setVersion(health.version), () => {});
  };
  useEffect(() => {
    connect();
    setMe(null);
    if (isShown) load();
  }, [isShown]);
  const isLive = useConnection() === "live";
  useEffect(() => {
    // The coordinator was away while the page loaded.
    if (isShown && isLive && !me) load();
  }, [isLive]);
  return html`
    <a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), main.current.focus())}>Skip to the content</a>
    <header>
      <a class="brand" href="#/">buildpool</a>
      ${isShown && html`<${Navigation} current=${address.path[0]} me=${me} />`}
      <div class="session">
        ${isShown && html`<${Connection} />`}
        <button type="button" class="plain" onClick=${turnTheme} aria-label=${`Theme: ${theme}`}><span class="wide">Theme: </span>${theme}</button>
        <button type="button" class="plain" aria-label="Help" onClick=${() => help.current.showModal()}>?</button>
        ${isShown && html`<button type="button" class="plain" onClick=${() => signOut()} title=${me ? `${me.name}, role ${me.role}` : ""}>Sign out</button>`}
      </div>
    </header>
    <main id="main" tabindex="-1" ref=${main}>
      ${error && html`<p class="notice bad" role="alert">${error.message}</p>`}
      ${offer ? html`<${Replacement} offer=${offer} done=${() => setOffer(null)} />` : !isIn ? html`<${SignIn} />` : me ? view(address, me) : !error && html`<${Loading} />`}
    </main>
    <footer class="quiet">buildpool ${version}${me && html` · signed in as ${me.name} (${me.role})`}</footer>
    <dialog ref=${help} aria-labelledby="help-title"><${Help} close=${() => help.current.close()} /></dialog>
  `;
}

await askOtherTabs();
const start = await takeCode();
render(html`<${App} start=${start} />`, document.getElementById("app"));
