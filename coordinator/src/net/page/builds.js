// A build: its jobs as a grid of commands and labels or workers.
import { get, query } from "./api.js";
import { Failure, JobTable, Loading, Ran, Standing, jobAddress, tone, useTitle } from "./components.js";
import { Finding } from "./findings.js";
import { plural, shortId, standing, visible, written } from "./format.js";
import { useLive } from "./live.js";
import { html } from "./vendor/htm-preact.js";

export function Build({ id }) {
  const ask = async (signal) => {
    const [{ jobs }, manifest] = await Promise.all([get(`jobs${query({ build: id, limit: 1000 })}`, { signal }), get(`builds/${encodeURIComponent(id)}`, { signal })]);
    return { jobs: jobs.reverse(), findings: manifest.tier_1_findings ?? [] };
  };
  const { value, error } = useLive(ask, [id], (event) => event.request_id === id || event.kind === "job_state");
  const all = value?.jobs ?? [];
  const over = all.filter((job) => job.verdict);
  const passed = over.filter((job) => job.verdict === "passed").length;
  const kind = over.length > passed ? "bad" : over.length < all.length ? "busy" : "good";
  useTitle(`Build ${id.slice(0, 19)}`, value && kind);
  if (!value) return html`<h1>Build</h1><${Loading} error=${error} />`;
  const { jobs, findings } = value;
  const commands = [...new Set(jobs.map((job) => job.command))];
  const labelOf = (job) => (job.labels ?? []).join(" ");
  const labels = [...new Set(jobs.map(labelOf))];
  const find = (command, label) => jobs.filter((job) => job.command === command && labelOf(job) === label);
  return html`
    <h1>Build <span class="quiet">${id}</span></h1>
    <${Failure} error=${error} />
    <p>${passed} passed, ${over.length - passed} ended otherwise, ${jobs.length - over.length} not over</p>
    ${jobs.length > 1 &&
    html`<div class="scroll" tabindex="0" role="region" aria-label="Jobs by command and label">
      <table class="grid">
        <thead><tr><th scope="col">Command</th>${labels.map((label) => html`<th scope="col">${label || "any worker"}</th>`)}</tr></thead>
        <tbody>
          ${commands.map(
            (command) => html`<tr key=${command}>
              <th scope="row"><span class="command">${visible(written(command))}</span></th>
              ${labels.map((label) => html`<td>${find(command, label).map((job) => html`<a class=${`verdict-cell ${tone(standing(job))}`} href=${jobAddress(job.job_id)}><${Standing} job=${job} /> <span class="quiet"><${Ran} job=${job} /></span></a>`)}</td>`)}
            </tr>`,
          )}
        </tbody>
      </table>
    </div>`}
    ${findings.length > 0 &&
    html`<section aria-labelledby="findings-title">
      <h2 id="findings-title">Findings <span class="quiet">${findings.length}</span></h2>
      ${findings.map((finding) => html`<${Finding} key=${`${finding.job} ${finding.id}`} finding=${finding}>${finding.job && html`<a href=${jobAddress(finding.job)}>Job ${shortId(finding.job)}</a>`}<//>`)}
    </section>`}
    <h2>${plural(jobs.length, "job")}</h2>
    <${JobTable} jobs=${jobs} empty="" columns=${["worker"]} />
  `;
}
