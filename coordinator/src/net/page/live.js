// Changes of the pool, from its server-sent events. One connection serves all views of the tab. EventSource can't send
// the Authorization header, so the stream is read with fetch.
import { Refused, endsWithConnection, send, signOut, token } from "./api.js";
import { useEffect, useRef, useState } from "./vendor/htm-preact.js";

const PAUSE_MS = [500, 1_000, 2_000, 5_000, 10_000];
/** The coordinator sends a comment every 15 s. */
const SILENCE_MAX_MS = 40_000;
/** Shortest time between two requests of one view. */
const REFRESH_MS = 1_500;
/** Time after which a view asks again for something that was refused. */
const AFTER_ERROR_MS = 5_000;

const subscribers = new Set();
const watchers = new Set();
let state = "connecting";
let current = null;
/** Whether a view asked for something while no event could tell of a change. */
let isEarly = false;

function setState(next) {
  state = next;
  watchers.forEach((watcher) => watcher(next));
}

/** Parses a stream of server-sent events, and calls `take` with the fields of each. */
export async function readEvents(answer, take, alive = () => {}) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    alive();
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = { data: "" };
      for (const line of block.split("\n")) {
        const [, name, text] = /^(\w+): ?(.*)$/.exec(line) ?? [];
        if (name === "data") event.data += text;
        else if (name) event[name] = text;
      }
      take(event);
    }
  }
}

async function follow(signal) {
  let last = null;
  let failures = 0;
  while (!signal.aborted) {
    const connection = new AbortController();
    const stop = () => connection.abort();
    signal.addEventListener("abort", stop);
    let timer;
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(stop, SILENCE_MAX_MS);
    };
    try {
      alive();
      const headers = last ? { "Last-Event-ID": last } : {};
      const answer = await send("GET", "events", { accept: "text/event-stream", headers, signal: connection.signal });
      const wasLost = failures > 0;
      failures = 0;
      setState("live");
      if (wasLost || isEarly) subscribers.forEach((subscriber) => subscriber({ kind: "resync" }));
      isEarly = false;
      await readEvents(
        answer,
        (event) => {
          last = event.id ?? last;
          // No event tells that a known worker connects or goes. The coordinator's comments are the time to look.
          const isHeartbeat = !event.data && !event.id;
          const told = isHeartbeat ? { kind: "heartbeat" } : event.data && JSON.parse(event.data);
          if (told) subscribers.forEach((subscriber) => subscriber(told));
        },
        alive,
      );
    } catch (error) {
      if (error instanceof Refused && error.status === 401) return;
      if (error instanceof Refused && [404, 410].includes(error.status)) last = null;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", stop);
      connection.abort();
    }
    if (signal.aborted) return;
    if (endsWithConnection()) return signOut();
    failures += 1;
    setState("lost");
    await new Promise((done) => setTimeout(done, PAUSE_MS[Math.min(failures, PAUSE_MS.length) - 1]));
  }
}

/** Connects with the current token, or ends the connection without one. */
export function connect() {
  current?.abort();
  current = null;
  if (!token()) return;
  current = new AbortController();
  setState("connecting");
  follow(current.signal);
}

export function useConnection() {
  const [shown, setShown] = useState(state);
  useEffect(() => {
    watchers.add(setShown);
    setShown(state);
    return () => watchers.delete(setShown);
  }, []);
  return shown;
}

/** Calls `take` with each event while the component is shown. */
export function useEvents(take) {
  const newest = useRef(take);
  newest.current = take;
  useEffect(() => {
    const subscriber = (event) => newest.current(event);
    subscribers.add(subscriber);
    return () => subscribers.delete(subscriber);
  }, []);
}

/**
 * Asks for something, and again after events that concern it. Returns `{ value, error, refresh }`; a value stays until
 * the next one has come.
 */
export function useLive(ask, dependencies, concerns = () => true) {
  const [shown, setShown] = useState({});
  const job = useRef({});
  job.current.ask = ask;
  const refresh = () => {
    const now = job.current;
    if (now.timer || !now.run) return;
    if (document.hidden) {
      now.isLate = true;
      return;
    }
    const pause = Math.max(0, (now.at ?? 0) + REFRESH_MS - Date.now());
    now.timer = setTimeout(() => {
      now.timer = null;
      now.run?.();
    }, pause);
  };
  useEffect(() => {
    const control = new AbortController();
    const now = job.current;
    now.isBusy = false;
    now.run = async () => {
      // Answers that overtake each other would show what was.
      if (now.isBusy) {
        now.isAgain = true;
        return;
      }
      now.isBusy = true;
      now.at = Date.now();
      if (state !== "live") isEarly = true;
      try {
        const value = await now.ask(control.signal);
        if (!control.signal.aborted) setShown({ value });
      } catch (error) {
        if (!control.signal.aborted) {
          setShown((before) => ({ ...before, error }));
          // An unknown job or a missing right stays so. Other refusals end.
          if (![401, 403, 404].includes(error.status)) now.later = setTimeout(refresh, AFTER_ERROR_MS);
        }
      }
      if (control.signal.aborted) return;
      now.isBusy = false;
      if (now.isAgain) {
        now.isAgain = false;
        refresh();
      }
    };
    const seen = () => {
      if (!document.hidden && now.isLate) {
        now.isLate = false;
        refresh();
      }
    };
    document.addEventListener("visibilitychange", seen);
    setShown({});
    now.run();
    return () => {
      control.abort();
      now.run = null;
      clearTimeout(now.timer);
      clearTimeout(now.later);
      now.timer = null;
      document.removeEventListener("visibilitychange", seen);
    };
  }, dependencies);
  useEvents((event) => (event.kind === "resync" || concerns(event)) && refresh());
  return { ...shown, refresh };
}

/** The time, again every second while the page is visible. */
export function useNow() {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => document.hidden || setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  return now;
}
