// Requests to the HTTP API, and the token that they need.
//
// The token is in this tab's session storage. Another open tab of the pool hands it over through a BroadcastChannel, so
// that a link in a new tab needs no new sign-in, and nothing stays when the last tab is closed. Only a user who asks for
// it keeps the token in local storage, and never on a loopback address: another program may use that port later.

const TOKEN = "buildpool.token";
const BY_CODE = "buildpool.by-code";
const HANDED_OVER_WITHIN_MS = 150;
const channel = new BroadcastChannel("buildpool.sign-in");
const listeners = new Set();

export const isLoopback = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(location.hostname);

export const token = () => sessionStorage.getItem(TOKEN) ?? localStorage.getItem(TOKEN);

/** Calls `listener` when somebody signs in or out in this tab or another one. */
export const onSignIn = (listener) => listeners.add(listener);

const changed = () => listeners.forEach((listener) => listener());

export function signIn(secret, isKept = false) {
  sessionStorage.setItem(TOKEN, secret);
  if (isKept && !isLoopback) localStorage.setItem(TOKEN, secret);
  changed();
}

/**
 * Signs in with a token that came for a one-time code. On a loopback address, `buildpool page` may serve the page: the
 * port is free as soon as it ends, and the program that takes it must not get the token.
 */
export function signInByCode(secret) {
  sessionStorage.setItem(BY_CODE, "yes");
  signIn(secret);
}

/** Whether the end of the connection must end the sign-in. */
export const endsWithConnection = () => isLoopback && sessionStorage.getItem(BY_CODE) !== null;

export function signOut(isTold = true) {
  sessionStorage.removeItem(TOKEN);
  sessionStorage.removeItem(BY_CODE);
  localStorage.removeItem(TOKEN);
  if (isTold) channel.postMessage({ kind: "signed-out" });
  changed();
}

channel.addEventListener("message", ({ data }) => {
  if (data.kind === "asks" && token()) channel.postMessage({ kind: "hands-over", token: token(), byCode: endsWithConnection() });
  if (data.kind === "hands-over" && !token()) (data.byCode ? signInByCode : signIn)(data.token);
  if (data.kind === "signed-out") signOut(false);
});

/** Asks the other tabs for the token. Resolves when one has answered, or after a short time. */
export function askOtherTabs() {
  if (token()) return Promise.resolve();
  channel.postMessage({ kind: "asks" });
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, HANDED_OVER_WITHIN_MS);
    onSignIn(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** A refused request. */
export class Refused extends Error {
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }
}

export async function send(method, path, { body, accept = "application/json", signal, headers = {} } = {}) {
  const all = { Accept: accept, ...headers };
  if (token()) all.Authorization = `Bearer ${token()}`;
  if (body !== undefined) all["Content-Type"] = "application/json";
  const text = body === undefined ? undefined : JSON.stringify(body);
  const answer = await fetch(`api/v1/${path}`, { method, headers: all, body: text, signal });
  if (answer.ok) return answer;
  const problem = await answer.json().catch(() => ({}));
  if (answer.status === 401 && token()) signOut(false);
  throw new Refused(answer.status, problem.code, problem.detail ?? `the coordinator answered with status ${answer.status}`);
}

export const get = async (path, options) => (await send("GET", path, options)).json();

export async function change(method, path, body) {
  const answer = await send(method, path, { body });
  return answer.status === 204 ? null : answer.json();
}

/** Encodes query parameters; those without a value are left out. */
export function query(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given).toString();
  return text && `?${text}`;
}
