// The list of jobs. The address holds the filter.
import { get, query } from "./api.js";
import { Failure, JobTable, Loading, useTitle } from "./components.js";
import { words } from "./format.js";
import { useLive } from "./live.js";
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";

const PAGE = 50;
const STATES = ["queued", "preparing", "running", "sealing", "done"];
const VERDICTS = ["passed", "failed", "crashed", "timed_out", "cancelled", "lost", "rejected", "inconclusive"];
const TEXTS = [
  ["command", "Command contains"],
  ["project", "Project contains"],
  ["submitter", "Submitter"],
  ["worker", "Worker"],
  ["label", "Label"],
];
const AGES = [
  ["", "any time"],
  ["1h", "last hour"],
  ["24h", "last 24 hours"],
  ["7d", "last 7 days"],
];
const HOUR_MS = 3_600_000;
const AGE_MS = { "1h": HOUR_MS, "24h": 24 * HOUR_MS, "7d": 168 * HOUR_MS };

/** The address names an age, so that a link means the same tomorrow. */
const asked = ({ age, ...filter }) => ({ ...filter, since: AGE_MS[age] ? new Date(Date.now() - AGE_MS[age]).toISOString() : filter.since });

function show(filter) {
  location.hash = `#/jobs${query(filter)}`;
}

function Choice({ name, values, filter, any }) {
  return html`<label>${name}
    <select value=${filter[name] ?? ""} onChange=${(event) => show({ ...filter, [name]: event.target.value })}>
      <option value="">${any}</option>
      ${values.map((value) => html`<option value=${value}>${words(value)}</option>`)}
    </select>
  </label>`;
}

function Filter({ filter }) {
  const submit = (event) => {
    event.preventDefault();
    show({ ...filter, ...Object.fromEntries(new FormData(event.target)) });
  };
  const isSet = Object.values(filter).some(Boolean);
  return html`<form class="filter" role="search" aria-label="Filter jobs" onSubmit=${submit}>
    <${Choice} name="state" values=${STATES} filter=${filter} any="any state" />
    <${Choice} name="verdict" values=${VERDICTS} filter=${filter} any="any verdict" />
    ${TEXTS.map(
      ([name, label]) => html`<label>${label}
        <input name=${name} type="search" data-search=${name === "command" ? true : undefined} key=${`${name} ${filter[name] ?? ""}`} defaultValue=${filter[name] ?? ""} onChange=${(event) => event.target.form.requestSubmit()} />
      </label>`,
    )}
    <label>Created
      <select value=${filter.age ?? ""} onChange=${(event) => show({ ...filter, age: event.target.value })}>
        ${AGES.map(([value, text]) => html`<option value=${value}>${text}</option>`)}
      </select>
    </label>
    <div class="buttons"><button>Filter</button>${isSet && html`<a class="button" href="#/jobs">Clear</a>`}</div>
  </form>`;
}

export function Jobs({ filter }) {
  useTitle(filter.verdict || filter.state ? `${words(filter.verdict ?? filter.state)} jobs` : "Jobs");
  const key = JSON.stringify(filter);
  const { value, error } = useLive((signal) => get(`jobs${query({ ...asked(filter), limit: PAGE })}`, { signal }), [key], (event) => event.kind === "job_state");
  const [older, setOlder] = useState({ jobs: [] });
  const newest = useRef(key);
  newest.current = key;
  useEffect(() => setOlder({ jobs: [] }), [key]);
  const cursor = older.jobs.length > 0 ? older.next_cursor : value?.next_cursor;
  const more = async () => {
    try {
      const next = await get(`jobs${query({ ...asked(filter), limit: PAGE, cursor })}`);
      // The filter may be another one by now.
      if (newest.current === key) setOlder((before) => ({ jobs: [...before.jobs, ...next.jobs], next_cursor: next.next_cursor }));
    } catch (problem) {
      if (newest.current === key) setOlder((before) => ({ ...before, error: problem }));
    }
  };
  const seen = new Set((value?.jobs ?? []).map((job) => job.job_id));
  const all = [...(value?.jobs ?? []), ...older.jobs.filter((job) => !seen.has(job.job_id))];
  return html`
    <h1>Jobs</h1>
    <${Filter} filter=${filter} />
    ${value ? html`<${Failure} error=${error ?? older.error} />` : html`<${Loading} error=${error} />`}
    ${value && html`<${JobTable} jobs=${all} empty="No job matches the filter." />`}
    ${cursor && html`<p><button type="button" onClick=${more}>Show older jobs</button></p>`}
  `;
}
