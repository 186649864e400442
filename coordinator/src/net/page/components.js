// Parts that several views use.
import { absolute, ago, duration, projectName, shortId, standing, visible, words, written } from "./format.js";
import { useNow } from "./live.js";
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";

const ICONS = {
  passed: "M4 8.5l2.7 2.7L12 5.5",
  failed: "M5 5l6 6M11 5l-6 6",
  crashed: "M9 3L5 9h4l-2 4",
  timed_out: "M8 4.5V8l2.5 2",
  cancelled: "M4.5 11.5l7-7",
  lost: "M6 6a2 2 0 1 1 2.8 1.8c-.6.3-.8.7-.8 1.4M8 11.6v.1",
  rejected: "M5 8h6",
  inconclusive: "M6 6a2 2 0 1 1 2.8 1.8c-.6.3-.8.7-.8 1.4M8 11.6v.1",
  queued: "M5.5 8h.1M8 8h.1M10.5 8h.1",
  preparing: "M8 4.5V8",
  running: "",
  sealing: "M5 8h6",
};

/** The group of states that share a colour. */
export const tone = (name) =>
  ({ passed: "good", failed: "bad", crashed: "bad", timed_out: "bad", running: "busy", preparing: "busy", sealing: "busy" })[name] ??
  (["lost", "rejected", "inconclusive"].includes(name) ? "odd" : "idle");

export function Icon({ name }) {
  return html`<svg class=${`icon ${tone(name)} ${name}`} viewBox="0 0 16 16" aria-hidden="true">
    <circle cx="8" cy="8" r="7" /><path d=${ICONS[name] ?? ""} />
  </svg>`;
}

export function Standing({ job }) {
  const name = standing(job);
  return html`<span class=${`standing ${tone(name)}`}><${Icon} name=${name} />${words(name)}</span>`;
}

/** A time, relative to now. */
export function Ago({ at }) {
  const now = useNow();
  if (!at) return null;
  return html`<time datetime=${at} title=${absolute(at)}>${ago(at, now)}</time>`;
}

/** How long a job ran, or has been running. */
export function Ran({ job }) {
  const now = useNow();
  if (job.verdict || job.state === "done") return job.duration_secs === undefined ? null : duration(job.duration_secs);
  const since = job.started_at ? (now - Date.parse(job.started_at)) / 1_000 : job.duration_secs;
  return since === undefined || since === null ? null : duration(Math.max(0, Math.floor(since)));
}

export const jobAddress = (id) => `#/jobs/${encodeURIComponent(id)}`;
export const workerAddress = (name) => `#/workers/${encodeURIComponent(name)}`;

/** A job in a list: project and command first, then its failure. */
export function JobName({ job }) {
  const project = projectName(job.project);
  return html`<div class="job-name">
    <a href=${jobAddress(job.job_id)} title=${job.command} data-row>
      ${project && html`<span class="project">${project}</span>`}<span class="command">${visible(written(job.command))}</span>
    </a>
    ${job.headline && tone(standing(job)) !== "good" && html`<div class="headline" title=${job.headline}>${visible(job.headline)}</div>`}
    ${job.waiting && html`<div class="quiet reason" title=${job.waiting.reason}>${job.waiting.reason}</div>`}
  </div>`;
}

export function JobTable({ jobs, empty, columns = ["worker", "submitter"] }) {
  if (jobs.length === 0) return html`<p class="empty">${empty}</p>`;
  const has = (name) => columns.includes(name);
  return html`<table class="jobs">
    <thead>
      <tr>
        <th scope="col">State</th>
        <th scope="col">Job</th>
        ${has("worker") && html`<th scope="col">Worker</th>`}
        ${has("submitter") && html`<th scope="col">Submitter</th>`}
        <th scope="col">Created</th>
        <th scope="col" class="number">Ran</th>
      </tr>
    </thead>
    <tbody>
      ${jobs.map(
        (job) => html`<tr key=${job.job_id}>
          <td class="state"><${Standing} job=${job} /></td>
          <td class="main"><${JobName} job=${job} /></td>
          ${has("worker") && html`<td class="extra">${job.worker && html`<a href=${workerAddress(job.worker)}>${job.worker}</a>`}</td>`}
          ${has("submitter") && html`<td class="extra">${job.submitter}</td>`}
          <td class="time"><${Ago} at=${job.created_at} /></td>
          <td class="number"><${Ran} job=${job} /></td>
        </tr>`,
      )}
    </tbody>
  </table>`;
}

export function Failure({ error }) {
  return error ? html`<p class="notice bad" role="alert">${error.message}</p>` : null;
}

/** The place of a view whose first answer has not come. The bars appear only if that takes a moment. */
export function Loading({ error }) {
  if (error) return html`<${Failure} error=${error} />`;
  return html`<div class="loading" role="status"><span class="hidden">Loading</span><i></i><i></i><i></i><i></i></div>`;
}

const ICON_COLOURS = { good: "#1a7f37", bad: "#c62828", busy: "#b07800", odd: "#7446b8", idle: "#57606a" };
const icons = new Map();

/** A dot in the colour of a state, as the icon of the tab. */
function iconOf(kind) {
  if (!icons.has(kind)) {
    const text = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="7" fill="${ICON_COLOURS[kind]}"/></svg>`;
    icons.set(kind, URL.createObjectURL(new Blob([text], { type: "image/svg+xml" })));
  }
  return icons.get(kind);
}

/** Sets the title of the window, and the colour of its icon if `kind` is given. */
export function useTitle(text, kind) {
  useEffect(() => {
    document.title = text ? `${text} · buildpool` : "buildpool";
  }, [text]);
  useEffect(() => {
    if (!kind) return undefined;
    const link = document.querySelector("link[rel=icon]");
    const usual = link.href;
    link.href = iconOf(kind);
    return () => (link.href = usual);
  }, [kind]);
}

/** Text with commands between backticks. */
export const Coded = ({ text }) => text.split("`").map((part, index) => (index % 2 ? html`<code>${visible(part)}</code>` : visible(part)));

export function Copy({ text, label }) {
  const [isDone, setDone] = useState(false);
  const [isShown, setShown] = useState(false);
  const field = useRef();
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      setTimeout(() => setDone(false), 2_000);
    } catch {
      // Without TLS there is no clipboard: the text can be selected.
      setShown(true);
      setTimeout(() => field.current?.select());
    }
  };
  return html`<button type="button" onClick=${copy}>${isDone ? "Copied" : label}</button>
    ${isShown && html`<input ref=${field} class="copied" readonly value=${text} aria-label=${label} />`}`;
}

/** A button that asks the pool to change something. */
export function Action({ label, run, isRisky, confirm: question }) {
  const [state, setState] = useState({});
  const act = async () => {
    if (question && !window.confirm(question)) return;
    setState({ isBusy: true });
    try {
      await run();
      setState({});
    } catch (error) {
      setState({ error });
    }
  };
  return html`<span class="action">
    <button type="button" class=${isRisky ? "risky" : ""} disabled=${state.isBusy} onClick=${act}>${label}</button>
    <${Failure} error=${state.error} />
  </span>`;
}

/** Saves bytes as a file of the user. */
export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export const idOf = (job) => html`<code title=${job.job_id}>${shortId(job.job_id)}</code>`;
