// The pool at a glance.
import { get } from "./api.js";
import { Spark } from "./charts.js";
import { Failure, JobTable, Loading, useTitle } from "./components.js";
import { count, duration, plural } from "./format.js";
import { useLive } from "./live.js";
import { Queue } from "./queue.js";
import { WorkerBoard, trouble } from "./workers.js";
import { html } from "./vendor/htm-preact.js";

const RECENT = 15;
const WAITING_SHOWN = 10;

const ofJobs = (event) => event.kind === "job_state";
const ofWorkers = (event) => ["job_state", "heartbeat"].includes(event.kind) || event.kind.startsWith("worker_");

function Figure({ name, value, unit, note, isBad, address, children }) {
  return html`<a class=${`figure ${isBad ? "bad" : ""}`} href=${address}>
    <h2>${name}</h2>
    <p class="value">${value}<span class="unit">${unit}</span></p>
    <p class="quiet">${note}</p>
    ${children}
  </a>`;
}

function Figures({ workers, queued, load }) {
  const usable = workers.filter((worker) => worker.connected);
  const slots = usable.reduce((sum, worker) => sum + worker.slots, 0);
  const busy = usable.reduce((sum, worker) => sum + worker.busy, 0);
  const sick = workers.filter(trouble);
  const periods = load?.periods ?? [];
  const waits = load?.wait_p50_secs === undefined ? "no job has started today" : `waits: half under ${duration(load.wait_p50_secs)}, 90 % under ${duration(load.wait_p90_secs)}`;
  const rate = load?.jobs ? `of ${count(load.jobs)} jobs in 24 h, ${((100 * load.failed) / load.jobs).toFixed(load.failed * 10 > load.jobs ? 0 : 1)} %` : "no job has ended in 24 h";
  const names = sick.slice(0, 3).map((worker) => worker.name).join(", ");
  return html`<section class="figures" aria-label="The pool at a glance">
    <${Figure} name="Slots in use" value=${busy} unit=${` of ${slots}`} note=${plural(usable.length, "connected worker")} address="#/jobs?state=running">
      <${Spark} values=${periods.map((period) => period.busy_secs)} label="Run time of jobs by half hours, last 24 hours" />
    <//>
    <${Figure} name="Queue" value=${queued} unit=${queued === 1 ? " job waits" : " jobs wait"} note=${waits} address="#/jobs?state=queued">
      <${Spark} values=${periods.map((period) => period.wait_p90_secs ?? 0)} label="90th percentile of waits by half hours, last 24 hours" />
    <//>
    <${Figure} name="Failures" value=${load ? count(load.failed) : "…"} unit="" note=${rate} address="#/jobs?verdict=failed">
      <${Spark} kind="bad" values=${periods.map((period) => period.failed)} label="Failed jobs by half hours, last 24 hours" />
    <//>
    <${Figure} name="Workers in trouble" value=${sick.length} unit=${` of ${workers.length}`} isBad=${sick.length > 0} address="#/workers"
      note=${sick.length > 3 ? `${names} and ${sick.length - 3} more` : names || "all are well"} />
  </section>`;
}

async function summary(signal) {
  const [pool, queued, running, recent, load, health] = await Promise.all([
    get("workers", { signal }),
    get("queue", { signal }),
    get("jobs?state=running&limit=1000", { signal }),
    get(`jobs?state=done&limit=${RECENT}`, { signal }),
    get("load", { signal }),
    get("health", { signal }),
  ]);
  return { workers: pool.workers, queued: queued.jobs, running: running.jobs, recent: recent.jobs, load, health };
}

export function Overview() {
  useTitle("Overview");
  const { value, error } = useLive(summary, [], (event) => ofJobs(event) || ofWorkers(event));
  if (!value) return html`<h1 class="hidden">Overview</h1><${Loading} error=${error} />`;
  const { workers, queued, running, recent, load, health } = value;
  return html`
    <h1 class="hidden">Overview</h1>
    <${Failure} error=${error} />
    ${health.reason && html`<p class="notice bad">${health.reason}</p>`}
    <${Figures} workers=${workers} queued=${health.queued} load=${load} />
    <div class="columns">
      <div>
        ${queued.length > 0 &&
        html`<section aria-labelledby="queue-title">
          <h2 id="queue-title">Queue</h2>
          <${Queue} jobs=${queued.slice(0, WAITING_SHOWN)} />
          ${health.queued > WAITING_SHOWN && html`<p><a href="#/jobs?state=queued">All ${count(health.queued)} waiting jobs</a></p>`}
        </section>`}
        <section aria-labelledby="recent-title">
          <h2 id="recent-title">Recent jobs</h2>
          <${JobTable} jobs=${recent} empty="No job has ended yet." columns=${["worker"]} />
          <p><a href="#/jobs">All jobs</a></p>
        </section>
      </div>
      <section aria-labelledby="workers-title">
        <h2 id="workers-title">Workers</h2>
        <${WorkerBoard} workers=${workers} running=${running} />
      </section>
    </div>
  `;
}
