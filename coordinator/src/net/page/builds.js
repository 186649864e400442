// A build: its jobs as a grid of commands and labels or workers.
import { get, query } from "./api.js";
import { Failure, JobTable, Standing, jobAddress, tone, useTitle } from "./components.js";
import { plural, standing, visible, written } from "./format.js";
import { useLive } from "./live.js";
import { html } from "./vendor/htm-preact.js";

export function Build({ id }) {
  useTitle(`Build ${id.slice(0, 19)}`);
  const ask = async (signal) => {
    const answer = await get(`jobs${query({ build: id, limit: 1000 })}`, { signal });
    // An empty list would look like a build without failures.
    if (answer.jobs.length === 0) await get(`builds/${encodeURIComponent(id)}`, { signal });
    const details = await Promise.all(answer.jobs.slice(0, 64).map((job) => get(`jobs/${job.job_id}?verbosity=minimal`, { signal }).catch(() => ({}))));
    return answer.jobs.map((job, index) => ({ ...job, labels: details[index]?.labels ?? [] })).reverse();
  };
  const { value: jobs, error } = useLive(ask, [id], (event) => event.request_id === id || event.kind === "job_state");
  if (!jobs) return html`<h1>Build</h1><${Failure} error=${error} />`;
  const commands = [...new Set(jobs.map((job) => job.command))];
  const labels = [...new Set(jobs.map((job) => job.labels.join(" ")))];
  const over = jobs.filter((job) => job.verdict);
  const passed = over.filter((job) => job.verdict === "passed").length;
  const find = (command, label) => jobs.filter((job) => job.command === command && job.labels.join(" ") === label);
  return html`
    <h1>Build <span class="quiet">${id}</span></h1>
    <${Failure} error=${error} />
    <p>${passed} passed, ${over.length - passed} ended otherwise, ${jobs.length - over.length} not over</p>
    ${labels.length > 1 &&
    html`<div class="scroll" tabindex="0" role="region" aria-label="Jobs by command and label">
      <table class="grid">
        <thead><tr><th scope="col">Command</th>${labels.map((label) => html`<th scope="col">${label || "any worker"}</th>`)}</tr></thead>
        <tbody>
          ${commands.map(
            (command) => html`<tr key=${command}>
              <th scope="row"><span class="command">${visible(written(command))}</span></th>
              ${labels.map((label) => html`<td>${find(command, label).map((job) => html`<a class=${`verdict-cell ${tone(standing(job))}`} href=${jobAddress(job.job_id)}><${Standing} job=${job} /></a>`)}</td>`)}
            </tr>`,
          )}
        </tbody>
      </table>
    </div>`}
    <h2>${plural(jobs.length, "job")}</h2>
    <${JobTable} jobs=${jobs} empty="" columns=${["worker"]} />
  `;
}
