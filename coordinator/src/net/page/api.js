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

/** Calls `listener` when somebody signs in or out in this tab or another one. Returns the function that ends this. */
export function onSignIn(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

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
    const ready = () => {
      clearTimeout(timer);
      end();
      resolve();
    };
    const timer = setTimeout(ready, HANDED_OVER_WITHIN_MS);
    const end = onSignIn(ready);
  });
}

/** A refused request, or one without an answer: its status is 0. */
export class Refused extends Error {
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }
}

/** Sends a request with the user's token, or with `secret`. */
export async function send(method, path, { body, accept = "application/json", signal, headers = {}, secret = token() } = {}) {
  const all = { Accept: accept, ...headers };
  if (secret) all.Authorization = `Bearer ${secret}`;
  if (body !== undefined) all["Content-Type"] = "application/json";
  const text = body === undefined ? undefined : JSON.stringify(body);
  const answer = await fetch(`api/v1/${path}`, { method, headers: all, body: text, signal }).catch((error) => {
    if (signal?.aborted) throw error;
    throw new Refused(0, "unavailable", "The coordinator can't be reached. The page tries again.");
  });
  if (answer.ok) return answer;
  const problem = await answer.json().catch(() => ({}));
  if (answer.status === 401 && secret && secret === token()) signOut(false);
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
