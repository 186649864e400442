// The workers: all of them, and one.
import { change, get } from "./api.js";
import { Timeline } from "./charts.js";
import { Action, Ago, Failure, JobTable, Loading, Ran, jobAddress, useTitle, workerAddress } from "./components.js";
import { byName, bytes, plural, projectName, visible, written } from "./format.js";
import { useLive, useNow } from "./live.js";
import { html, useState } from "./vendor/htm-preact.js";

/** More workers than these are shown as cells, without their jobs. */
const TILES_MAX = 24;
const JOBS_OF_A_DAY = 1_000;

/** A worker removes idle workspaces while less than a tenth of its disk, or 10 GiB, is free. Half of that means that it found no more to remove. */
const SHORT_PART = 0.05;
const SHORT_BYTES = 5 * 2 ** 30;

function isShort({ disk_free_bytes: free, disk_total_bytes: total }) {
  return free !== undefined && total !== undefined && free < Math.min(total * SHORT_PART, SHORT_BYTES);
}

/** Why a worker needs somebody's attention, if it does. */
export function trouble(worker) {
  if (!worker.connected) return "away";
  if (worker.quarantined) return worker.quarantined;
  return isShort(worker) ? `its disk is nearly full: ${bytes(worker.disk_free_bytes)} free` : null;
}

function condition(worker) {
  if (!worker.connected) return "away";
  if (worker.quarantined) return "quarantined";
  if (isShort(worker)) return "short";
  if (worker.draining) return "draining";
  return worker.busy > 0 ? "busy" : "idle";
}

const RANK = { away: 0, quarantined: 0, short: 1, draining: 2, busy: 3, idle: 3 };
const sickFirst = (one, other) => RANK[condition(one)] - RANK[condition(other)] || byName(one.name, other.name);

function State({ worker }) {
  const name = condition(worker);
  if (name === "away") return html`<span class="state-text bad">away since <${Ago} at=${worker.last_seen} /></span>`;
  if (name === "quarantined") return html`<span class="state-text bad">${worker.quarantined}</span>`;
  if (name === "short") return html`<span class="state-text bad">${trouble(worker)}</span>`;
  return html`<span class=${`state-text ${name}`}>${name === "draining" ? "draining" : `${worker.busy} of ${plural(worker.slots, "slot")} in use`}</span>`;
}

function Tile({ worker, jobs }) {
  return html`<li class=${`tile ${condition(worker)}`}>
    <a href=${workerAddress(worker.name)} data-row>${worker.name}</a>
    <${State} worker=${worker} />
    ${jobs.map(
      (job) => html`<a class="current" href=${jobAddress(job.job_id)} key=${job.job_id} title=${job.command}>
        <span class="command">${projectName(job.project)} ${visible(written(job.command))}</span> <span class="quiet"><${Ran} job=${job} /></span>
      </a>`,
    )}
  </li>`;
}

function Cell({ worker, jobs }) {
  const what = jobs.map((job) => job.command).join("; ");
  const text = `${worker.name}: ${condition(worker)}, ${worker.busy} of ${worker.slots}${what && `: ${what}`}`;
  return html`<li><a class=${`cell ${condition(worker)}`} href=${workerAddress(worker.name)} title=${text} aria-label=${text} data-row></a></li>`;
}

const matches = (worker, text) =>
  [worker.name, condition(worker), ...Object.entries(worker.labels).map(([key, value]) => `${key}=${value}`)].some((one) => one.toLowerCase().includes(text));

function grouped(workers, label) {
  if (!label) return [["", workers]];
  const groups = new Map();
  for (const worker of workers) {
    const name = worker.labels[label] === undefined ? `without ${label}` : `${label}=${worker.labels[label]}`;
    groups.set(name, [...(groups.get(name) ?? []), worker]);
  }
  return [...groups].sort(([one], [other]) => byName(one, other));
}

/** Labels that divide the workers into few groups. */
function dividing(workers) {
  const values = new Map();
  for (const worker of workers) {
    for (const [key, value] of Object.entries(worker.labels)) values.set(key, (values.get(key) ?? new Set()).add(value));
  }
  return [...values].filter(([, all]) => all.size > 1 && all.size <= 12).map(([key]) => key).sort(byName);
}

export function WorkerBoard({ workers, running }) {
  const [text, setText] = useState("");
  const [label, setLabel] = useState("");
  const jobsOf = Map.groupBy(running, (job) => job.worker);
  const shown = workers.filter((worker) => matches(worker, text.toLowerCase())).sort(sickFirst);
  const isDense = shown.length > TILES_MAX;
  const jobs = (worker) => jobsOf.get(worker.name) ?? [];
  const board = (some) => html`<ul class="tiles">${some.map((worker) => html`<${Tile} key=${worker.worker_id} worker=${worker} jobs=${jobs(worker)} />`)}</ul>`;
  const cells = (some) => html`<ul class="cells">${some.map((worker) => html`<${Cell} key=${worker.worker_id} worker=${worker} jobs=${jobs(worker)} />`)}</ul>`;
  if (workers.length === 0) return html`<p class="empty">No worker has joined. <code>buildpool worker --coordinator URL</code> starts one.</p>`;
  const sick = isDense ? shown.filter(trouble) : [];
  return html`
    <div class="controls">
      <input type="search" aria-label="Filter workers" placeholder="Filter: name, state, label" value=${text} onInput=${(event) => setText(event.target.value)} />
      <select aria-label="Group workers by label" value=${label} onChange=${(event) => setLabel(event.target.value)}>
        <option value="">no groups</option>
        ${dividing(workers).map((key) => html`<option value=${key}>by ${key}</option>`)}
      </select>
    </div>
    ${sick.length > 0 && board(sick.slice(0, TILES_MAX))}
    ${grouped(shown, label).map(
      ([name, some]) => html`<div key=${name}>
        ${name && html`<h3>${name} <span class="quiet">${plural(some.length, "worker")}</span></h3>`}
        ${isDense ? cells(some) : board(some)}
      </div>`,
    )}
    ${isDense && html`<p class="legend quiet"><i class="cell idle"></i> idle <i class="cell busy"></i> busy <i class="cell draining"></i> draining <i class="cell away"></i> away, refused or without disk space</p>`}
  `;
}

const concerns = (event) => ["job_state", "heartbeat"].includes(event.kind) || event.kind.startsWith("worker_");

export function Workers() {
  useTitle("Workers");
  const ask = async (signal) => {
    const [pool, running] = await Promise.all([get("workers", { signal }), get("jobs?state=running&limit=1000", { signal })]);
    return { workers: pool.workers, running: running.jobs };
  };
  const { value, error } = useLive(ask, [], concerns);
  const [text, setText] = useState("");
  if (!value) return html`<h1>Workers</h1><${Loading} error=${error} />`;
  const jobsOf = Map.groupBy(value.running, (job) => job.worker);
  const shown = value.workers.filter((worker) => matches(worker, text.toLowerCase())).sort(sickFirst);
  return html`
    <h1>Workers <span class="quiet">${value.workers.length}</span></h1>
    <${Failure} error=${error} />
    <div class="controls">
      <input data-search type="search" aria-label="Filter workers" placeholder="Filter: name, state, label" value=${text} onInput=${(event) => setText(event.target.value)} />
    </div>
    <table class="jobs">
      <thead><tr><th scope="col">Worker</th><th scope="col">State</th><th scope="col">Jobs</th><th scope="col">Labels</th><th scope="col" class="number">Disk free</th><th scope="col">Version</th></tr></thead>
      <tbody>
        ${shown.map(
          (worker) => html`<tr key=${worker.worker_id}>
            <td class="state"><i class=${`cell ${condition(worker)}`}></i> <a data-row href=${workerAddress(worker.name)}>${worker.name}</a></td>
            <td class="main"><${State} worker=${worker} /></td>
            <td class="extra">${(jobsOf.get(worker.name) ?? []).map((job) => html`<div class="clip"><a href=${jobAddress(job.job_id)}>${visible(written(job.command))}</a> <span class="quiet"><${Ran} job=${job} /></span></div>`)}</td>
            <td class="extra wide"><${Labels} labels=${worker.labels} most=${6} /></td>
            <td class="extra number wide">${worker.disk_free_bytes === undefined ? "" : bytes(worker.disk_free_bytes)}</td>
            <td class="extra wide">${worker.version}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  `;
}

function Labels({ labels, most = 1_000 }) {
  const all = Object.entries(labels).map(([key, value]) => (value ? `${key}=${value}` : key));
  return html`<span class="labels">${all.slice(0, most).map((label) => html`<code>${label}</code> `)}${all.length > most && html`<span class="quiet">and ${all.length - most} more</span>`}</span>`;
}

function Disk({ worker: { disk_free_bytes: free, disk_total_bytes: total, ...worker } }) {
  if (free === undefined) return null;
  if (total === undefined) return `${bytes(free)} free`;
  const text = `${bytes(free)} of ${bytes(total)} free`;
  const isBad = isShort({ disk_free_bytes: free, disk_total_bytes: total });
  return html`<span class=${`disk ${isBad ? "bad" : ""}`}><progress max=${total} value=${total - free} aria-label="Disk in use"></progress> ${text}${!worker.connected && " at its last report"}</span>`;
}

export function Worker({ name, me }) {
  useTitle(`${name} – Worker`);
  const now = useNow();
  const ask = async (signal) => {
    const since = new Date(Date.now() - 86_400_000).toISOString();
    const [pool, jobs] = await Promise.all([
      get("workers", { signal }),
      get(`jobs?worker=${encodeURIComponent(name)}&since=${since}&limit=${JOBS_OF_A_DAY}`, { signal }),
    ]);
    return { worker: pool.workers.find((one) => one.name === name || one.worker_id === name), jobs: jobs.jobs };
  };
  const { value, error, refresh } = useLive(ask, [name], (event) => event.kind === "heartbeat" || (event.kind === "job_state" ? event.worker === name : event.name === name));
  if (!value) return html`<h1>${name}</h1><${Loading} error=${error} />`;
  const { worker, jobs } = value;
  if (!worker) return html`<h1>${name}</h1><p class="notice bad">No worker has this name. <a href="#/workers">All workers</a></p>`;
  const act = (what) => async () => {
    await change("POST", `workers/${encodeURIComponent(worker.worker_id)}/${what}`, {});
    refresh();
  };
  const forget = async () => {
    await change("DELETE", `workers/${encodeURIComponent(worker.worker_id)}`);
    location.hash = "#/workers";
  };
  const facts = [
    ["State", html`<${State} worker=${worker} />`],
    ["Version", worker.version],
    ["Slots", worker.slots],
    ["Disk", worker.disk_free_bytes !== undefined && html`<${Disk} worker=${worker} />`],
    ["Resources", Object.entries(worker.resources).map(([key, units]) => `${key}=${units}`).join(", ")],
    ["Takes jobs of", worker.accepts?.join(", ") ?? "all submitters"],
    ["Token", worker.token],
    ["Last contact", worker.last_seen && html`<${Ago} at=${worker.last_seen} />`],
    ["Labels and tools", html`<${Labels} labels=${worker.labels} />`],
  ];
  return html`
    <p class="crumbs"><a href="#/workers">Workers</a></p>
    <div class="head"><h1>${worker.name}</h1>
      ${me.role === "admin" &&
      html`<div class="actions">
        ${worker.quarantined && html`<${Action} label="Approve" run=${act("approve")} />`}
        ${worker.draining ? html`<${Action} label="Resume" run=${act("resume")} />` : html`<${Action} label="Drain" run=${act("drain")} confirm=${`Give no more jobs to ${worker.name}? Its running jobs go on.`} />`}
        ${!worker.connected && html`<${Action} label="Forget" isRisky run=${forget} confirm=${`Forget ${worker.name}? Another machine can take its name.`} />`}
      </div>`}
    </div>
    <${Failure} error=${error} />
    <dl class="facts">${facts.filter(([, fact]) => fact !== undefined && fact !== "" && fact !== false).map(([key, fact]) => html`<dt>${key}</dt><dd>${fact}</dd>`)}</dl>
    <h2>Last 24 hours</h2>
    <${Timeline} jobs=${jobs} now=${now} />
    <h2>Last jobs</h2>
    <${JobTable} jobs=${jobs.slice(0, 50)} empty="It ran no job in the last 24 hours." columns=${["submitter"]} />
  `;
}
