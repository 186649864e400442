// What the pool says, shown as text and never as markup: commands, findings and logs are other people's words.
"use strict";

const ASK_EVERY_MS = 2000;
/** As many as an answer lists. */
const JOBS_MAX = 999;
const TAIL_LINES = 500;
/** Parts of a growing log that are asked for before the job is looked at again. */
const PARTS_MAX = 20;
const SHOWN_CHARACTERS_MAX = 2_000_000;
const TOKEN = "buildpool token";

const view = document.getElementById("view");
const enter = document.getElementById("enter");
const trouble = document.getElementById("trouble");

/** An element with these children; a text is a text. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

const token = () => sessionStorage.getItem(TOKEN);

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Asks the coordinator; throws what it refuses with. */
async function ask(path, signal) {
  const answer = await fetch(`v1/page/${path}`, { headers: { Authorization: `Bearer ${token()}` }, signal });
  const body = await answer.json();
  if (!answer.ok) throw new Refused(answer.status, body.message);
  return body;
}

function seconds(value) {
  if (value === null || value === undefined) return "";
  const text = value < 120 ? `${value.toFixed(1)} s` : `${Math.round(value / 60)} min`;
  return element("time", { datetime: `PT${value}S` }, text);
}

const moment = (text) => (text ? element("time", { datetime: text }, new Date(text).toLocaleString()) : "");

/** As `buildpool job` takes it too: a beginning that no other job has. */
const short = (id) => id.slice(0, 18);

const jobLink = (id, text) => element("a", { href: `#/jobs/${encodeURIComponent(id)}` }, text);

/** The verdict where there is one, else the state. */
function stand(job) {
  const word = job.verdict ?? job.state;
  return element("strong", { class: word }, word.replaceAll("_", " "));
}

function table(names, rows, none) {
  if (rows.length === 0) return element("p", { class: "quiet" }, none);
  const head = element("tr", {}, ...names.map((name) => element("th", { scope: "col" }, name)));
  const body = rows.map((cells) => element("tr", {}, ...cells.map((cell) => element("td", {}, cell))));
  const whole = element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
  return element("div", { class: "wide" }, whole);
}

function jobTable(jobs) {
  const row = (job) => [
    jobLink(job.job_id, short(job.job_id)),
    stand(job),
    element("span", { class: "command" }, job.command),
    job.worker ?? (job.waiting ? `waits: ${job.waiting.reason}` : ""),
    job.submitter,
    moment(job.created_at),
    seconds(job.duration_secs),
  ];
  return table(["Job", "Verdict", "Command", "Worker", "Submitter", "Created", "Ran"], jobs.map(row), "No jobs.");
}

function workerState(worker) {
  if (!worker.connected) return element("span", {}, "away since ", moment(worker.last_seen));
  if (worker.quarantined) return `takes no jobs: ${worker.quarantined}`;
  return worker.draining ? "draining" : "ready";
}

function workerTable(workers) {
  const labels = (worker) => Object.entries(worker.labels).map(([key, value]) => (value ? `${key}=${value}` : key));
  const row = (worker) => [
    worker.name,
    workerState(worker),
    `${worker.busy} of ${worker.slots}`,
    element("span", { class: "labels" }, labels(worker).join(" ")),
    worker.version,
  ];
  return table(["Worker", "State", "Slots in use", "Labels", "Version"], workers.map(row), "No workers.");
}

/** That there are older jobs, and the way to them. */
function older(pool) {
  if (!pool.has_more) return "";
  const count = pool.jobs.length;
  const said = `The newest ${count}. `;
  if (count < JOBS_MAX) return element("p", {}, said, element("a", { href: `#/all` }, `Show up to ${JOBS_MAX}`));
  return element("p", {}, said, "Those of a state or a build are listed by themselves.");
}

/** The way to the jobs of each state. */
function states() {
  const link = (state) => element("a", { href: state ? `#/${state}` : "#/" }, state || "all");
  const links = ["", "queued", "preparing", "running", "done"].flatMap((state) => [link(state), " "]);
  return element("p", { class: "quiet" }, ...links);
}

function showPool(pool) {
  const refuses = pool.refuses_jobs;
  view.replaceChildren(
    refuses ? element("p", { class: "failed" }, refuses) : "",
    element("h2", {}, "Workers"),
    workerTable(pool.workers),
    element("h2", {}, "Jobs"),
    states(),
    jobTable(pool.jobs),
    older(pool),
  );
}

function showBuild(build, pool) {
  // Ids are by time: the order of the request.
  const jobs = pool.jobs.toSorted((one, other) => (one.job_id < other.job_id ? -1 : 1));
  const ended = jobs.filter((job) => job.verdict);
  const passed = ended.filter((job) => job.verdict === "passed").length;
  const text = `${passed} passed, ${ended.length - passed} ended otherwise, ${jobs.length - ended.length} not over`;
  view.replaceChildren(element("h1", {}, build), element("p", {}, text), jobTable(jobs));
}

function place(finding) {
  const { location } = finding;
  if (!location) return "";
  return [location.file, location.line, location.column].filter((part) => part !== null).join(":");
}

function findingBlock(finding) {
  const of = [place(finding), finding.test && `test ${finding.test}`, finding.recurrence > 1 && `${finding.recurrence} times`];
  const around = (lines) => (lines.length > 0 ? element("span", { class: "quiet" }, lines.join("\n")) : null);
  const parts = [around(finding.pre_context), element("b", {}, finding.message), around(finding.post_context)];
  const lines = parts.filter(Boolean).flatMap((part, index) => (index > 0 ? ["\n", part] : [part]));
  const isBad = ["FATAL", "ERROR"].includes(finding.severity);
  return element(
    "div",
    { class: isBad ? "finding bad" : "finding" },
    element("div", { class: "quiet" }, of.filter(Boolean).join(" · ")),
    element("pre", {}, ...lines),
  );
}

function tests(counts) {
  if (!counts) return "";
  const { passed, failed, skipped, expected_failures: expected, total, source } = counts;
  return `${passed} passed, ${failed} failed, ${skipped} skipped, ${expected} expected failures of ${total} (${source})`;
}

function facts(result, progress) {
  const all = [
    ["Job", result.job_id],
    ["Build", result.request_id && element("a", { href: `#/builds/${result.request_id}` }, result.request_id)],
    ["Directory", result.directory],
    ["Worker", result.worker && (result.connected ? result.worker : `${result.worker}, which can't be reached now`)],
    ["Submitter", result.submitter],
    ["Waits", result.waiting && result.waiting.reason],
    ["Now", progress && progress.text],
    ["Created", moment(result.created_at)],
    ["Waited", seconds(result.queued_secs)],
    ["Ran", seconds(result.duration_secs)],
    ["Attempt", result.attempt > 1 && `${result.attempt}; ${result.earlier_attempts.map((one) => one.reason).join("; ")}`],
    ["Tests", tests(result.tests)],
    ["Artifacts", result.artifacts && result.artifacts.map((one) => `${one.path} (${one.bytes} bytes)`).join(", ")],
  ];
  const said = all.filter(([, value]) => value);
  return element("dl", {}, ...said.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

function summary({ result, progress }) {
  const findings = result.tier_1_findings.map(findingBlock);
  const others = result.other_findings.map((finding) => element("li", {}, finding.message));
  // The log itself is below.
  const elsewhere = result.omitted.filter((one) => !["stdout", "stderr", "filtered_output"].includes(one.what));
  const omitted = elsewhere.map((one) => element("li", {}, `${one.what}: ${one.lines} left out; ${one.get}`));
  const list = (name, items) => (items.length > 0 ? [element("h2", {}, name), element("ul", {}, ...items)] : []);
  return [
    element("h1", { class: "command" }, result.command),
    element("p", {}, stand(result), result.cause ? ` · ${result.cause.text}` : ""),
    facts(result, progress),
    ...(findings.length > 0 ? [element("h2", {}, "Findings"), ...findings] : []),
    ...list("Other findings", others),
    ...list("Warnings", result.warnings.shown.map((text) => element("li", {}, text))),
    ...list("Left out here", omitted),
  ];
}

/**
 * The log of a job: the last lines and what comes, or from its beginning. Answers may come when something else is asked for by
 * then: those are dropped.
 */
class Log {
  constructor(job) {
    this.job = job;
    this.path = `jobs/${encodeURIComponent(job)}/log`;
    this.text = element("pre", { class: "log", tabindex: "0", "aria-label": "Log" });
    this.note = element("p", { class: "quiet" });
    this.button = element("button", { type: "button" }, "From the beginning");
    this.button.addEventListener("click", () => this.further());
    this.isTail = true;
    this.restart(0);
  }

  parts() {
    return [element("h2", {}, "Log"), this.note, this.button, this.text];
  }

  /** Shows nothing of this attempt yet. */
  restart(attempt) {
    this.attempt = attempt;
    this.turn = Symbol("what is shown");
    this.hasBegun = false;
    /** Where to go on; none where there is nothing more. */
    this.cursor = null;
    /** Lines in front of those that are shown. */
    this.before = 0;
    this.characters = 0;
    this.text.replaceChildren();
    this.tell();
  }

  tell() {
    const attempt = this.attempt > 1 ? [`attempt ${this.attempt}`] : [];
    const before = this.before > 0 ? [`${this.before} lines before these are not shown`] : [];
    this.note.textContent = [...attempt, ...before].join("; ");
  }

  /** One part of the log; false when nothing came of it. */
  async next(query, signal) {
    const { turn } = this;
    const which = this.attempt > 0 ? `attempt=${this.attempt}` : "";
    const answer = await ask(`${this.path}?${query}${which}`, signal);
    if (turn !== this.turn) return false;
    const isAtEnd = this.text.scrollTop + this.text.clientHeight >= this.text.scrollHeight - 4;
    const text = answer.interleaved ?? "";
    this.text.append(text);
    this.characters += text.length;
    // What is too much goes in front: how a build ended stays.
    while (this.characters > SHOWN_CHARACTERS_MAX && this.text.childNodes.length > 1) {
      const gone = this.text.firstChild.data;
      this.characters -= gone.length;
      this.before += gone.split("\n").length - 1;
      this.text.firstChild.remove();
    }
    if (!this.hasBegun && this.isTail) this.before = answer.omitted.reduce((sum, one) => sum + one.lines, 0);
    // Of a log that is over, a tail says where what it leaves out begins, and all others that nothing is left.
    const isOver = this.isTail && !this.hasBegun && answer.state === "done";
    this.cursor = isOver ? null : answer.next_cursor;
    this.hasBegun = true;
    this.tell();
    if (isAtEnd && this.isTail) this.text.scrollTop = this.text.scrollHeight;
    return text !== "";
  }

  /** The last lines of an attempt, or what came since; all of it where the job is over. */
  async follow(attempt, isOver, signal) {
    if (!this.isTail) return;
    if (attempt !== this.attempt) this.restart(attempt);
    try {
      if (!this.hasBegun) await this.next(`tail=${TAIL_LINES}&`, signal);
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 404) throw error;
      // It has not begun, or never did.
      this.note.textContent = error.message;
      return;
    }
    for (let part = 0; this.cursor && (isOver || part < PARTS_MAX); part += 1) {
      if (!(await this.next(`cursor=${this.cursor}&`, signal))) return;
    }
  }

  /** The log from its beginning, a part with each call. */
  async further() {
    if (this.isTail) {
      this.isTail = false;
      this.restart(this.attempt);
    }
    this.button.disabled = true;
    try {
      await this.next(this.cursor ? `cursor=${this.cursor}&` : "");
      this.button.textContent = "More";
      this.button.hidden = this.cursor === null;
    } catch (error) {
      show(error);
    }
    this.button.disabled = false;
  }
}

function show(error) {
  trouble.hidden = error === null;
  if (error === null) return;
  trouble.textContent =
    error instanceof Refused ? error.message : "The coordinator can't be reached; this page asks it again and again.";
}

/** What an address shows: a function that asks once, and is over when it says so. */
function route() {
  const [kind, id] = location.hash.replace(/^#\//, "").split("/").map(decodeURIComponent);
  if (kind === "jobs" && id) {
    const head = element("div");
    const log = new Log(id);
    view.replaceChildren(head, ...log.parts());
    return async (signal) => {
      const job = await ask(`jobs/${encodeURIComponent(id)}`, signal);
      head.replaceChildren(...summary(job));
      const isOver = job.result.state === "done";
      if (job.result.attempt > 0) await log.follow(job.result.attempt, isOver, signal);
      return isOver;
    };
  }
  view.replaceChildren();
  if (kind === "builds" && id) {
    return async (signal) => {
      const pool = await ask(`pool?limit=${JOBS_MAX}&build=${encodeURIComponent(id)}`, signal);
      showBuild(id, pool);
      return pool.jobs.length > 0 && pool.jobs.every((job) => job.state === "done");
    };
  }
  const query = kind === "all" ? `?limit=${JOBS_MAX}` : kind ? `?limit=${JOBS_MAX}&state=${encodeURIComponent(kind)}` : "";
  return async (signal) => {
    const pool = await ask(`pool${query}`, signal);
    document.getElementById("version").textContent = pool.version;
    showPool(pool);
    return false;
  };
}

let current = new AbortController();

/** Asks again and again, while somebody looks, until what is shown does not change any more. */
async function watch(step, signal) {
  while (!signal.aborted) {
    try {
      if (!document.hidden) {
        const isOver = await step(signal);
        show(null);
        if (isOver) return;
      }
    } catch (error) {
      if (signal.aborted) return;
      show(error);
      if (error instanceof Refused && error.status === 401) return leave();
      if (error instanceof Refused && error.status < 429) return;
    }
    await new Promise((done) => setTimeout(done, ASK_EVERY_MS));
  }
}

function start() {
  current.abort();
  current = new AbortController();
  const isIn = token() !== null;
  enter.hidden = isIn;
  document.getElementById("leave").hidden = !isIn;
  if (isIn) {
    show(null);
    watch(route(), current.signal);
  } else {
    view.replaceChildren();
  }
}

function leave() {
  sessionStorage.removeItem(TOKEN);
  start();
}

enter.addEventListener("submit", (event) => {
  event.preventDefault();
  const field = document.getElementById("token");
  sessionStorage.setItem(TOKEN, field.value.trim());
  field.value = "";
  start();
});
document.getElementById("leave").addEventListener("click", () => {
  show(null);
  leave();
});
window.addEventListener("hashchange", start);
start();
