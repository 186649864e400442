// Small charts as SVG.
import { absolute, duration, plural, standing, words } from "./format.js";
import { jobAddress, tone } from "./components.js";
import { html } from "./vendor/htm-preact.js";

/** Bars of equal width, the newest at the right. */
export function Spark({ values, label, kind = "" }) {
  const most = Math.max(...values, 0);
  const width = 100 / Math.max(values.length, 1);
  const height = (value) => (most > 0 && value > 0 ? Math.max(2, (value / most) * 24) : 0);
  return html`<svg class=${`spark ${kind}`} viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label=${label}>
    ${values.map((value, index) => html`<rect key=${index} x=${index * width} y=${24 - height(value)} width=${width * 0.8} height=${height(value)} />`)}
  </svg>`;
}

/** A worker's last 24 hours: a bar for each job, in as many rows as jobs ran at once. */
export function Timeline({ jobs, now }) {
  const from = now - 86_400_000;
  const rows = [];
  const bars = jobs
    .filter((job) => job.started_at)
    .map((job) => {
      const start = Date.parse(job.started_at);
      const end = job.verdict ? start + (job.duration_secs ?? 0) * 1_000 : now;
      return { job, start, end };
    })
    .filter(({ end }) => end > from)
    .sort((one, other) => one.start - other.start);
  for (const bar of bars) {
    bar.row = rows.findIndex((end) => end <= bar.start);
    if (bar.row < 0) bar.row = rows.push(0) - 1;
    rows[bar.row] = bar.end;
  }
  const x = (time) => (Math.max(0, time - from) / 86_400_000) * 1_000;
  const height = Math.max(rows.length, 1) * 18 + 4;
  const hours = [...Array(5).keys()].map((number) => new Date(from + number * 21_600_000));
  const busy = bars.reduce((sum, { start, end }) => sum + end - Math.max(start, from), 0) / 1_000;
  return html`<figure class="timeline">
    <svg viewBox=${`0 0 1000 ${height}`} preserveAspectRatio="none" style=${{ height: `${height}px` }} role="group" aria-label="Jobs of the last 24 hours">
      ${hours.map((hour) => html`<line class="grid" x1=${x(hour)} x2=${x(hour)} y1="0" y2=${height} />`)}
      ${bars.map(
        ({ job, start, end, row }) => html`<a href=${jobAddress(job.job_id)} key=${job.job_id} tabindex="-1" aria-label=${job.command}>
          <rect class=${tone(job.verdict ?? job.state)} x=${x(start)} y=${row * 18 + 2} width=${Math.max(1.5, x(end) - x(start))} height="14">
            <title>${`${job.command}\n${words(job.verdict ?? job.state)}, ${duration((end - start) / 1_000)}, ${absolute(job.started_at)}`}</title>
          </rect>
        </a>`,
      )}
    </svg>
    <div class="hours" aria-hidden="true">
      ${hours.map((hour) => html`<span>${hour.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" })}</span>`)}
    </div>
    <figcaption class="quiet">${plural(bars.length, "job")} in 24 hours; ${duration(busy)} of work</figcaption>
  </figure>`;
}

/** The last jobs of a command, the newest last, with links. */
export function Runs({ jobs, current }) {
  return html`<ol class="runs" aria-label=${`Last ${plural(jobs.length, "run")} of this command`}>
    ${jobs.map((job) => {
      const name = standing(job);
      const text = `${words(name)}, ${absolute(job.created_at)}${job.worker ? `, on ${job.worker}` : ""}`;
      return html`<li key=${job.job_id}><a class=${tone(name)} href=${jobAddress(job.job_id)} title=${text} aria-label=${text} aria-current=${job.job_id === current ? "true" : undefined}></a></li>`;
    })}
  </ol>`;
}

/** The last results of a test, the newest last. */
export function Dots({ history }) {
  const shown = history.slice(-20);
  const label = `Last ${plural(shown.length, "run")}: ${shown.map((run) => run.result).join(", ")}`;
  return html`<span class="dots" role="img" aria-label=${label}>
    ${shown.map((run) => html`<i class=${run.result === "passed" ? "good" : run.result === "failed" ? "bad" : "idle"} title=${`${run.result}, ${absolute(run.at)}`}></i>`)}
  </span>`;
}
