// The jobs that wait, with their reasons.
import { Ago, JobName } from "./components.js";
import { duration } from "./format.js";
import { html } from "./vendor/htm-preact.js";

export function Queue({ jobs }) {
  const position = (job) => job.waiting?.position ?? Number.MAX_SAFE_INTEGER;
  const sorted = jobs.toSorted((one, other) => position(one) - position(other));
  if (sorted.length === 0) return html`<p class="empty">No job waits.</p>`;
  return html`<table class="jobs">
    <thead>
      <tr><th scope="col" class="number">#</th><th scope="col">Job and reason</th><th scope="col">Submitter</th><th scope="col">Waits since</th><th scope="col" class="number">Starts in</th></tr>
    </thead>
    <tbody>
      ${sorted.map(
        (job) => html`<tr key=${job.job_id}>
          <td class="state number">${job.waiting?.position ?? ""}</td>
          <td class="main"><${JobName} job=${job} /></td>
          <td class="extra">${job.submitter}</td>
          <td class="time"><${Ago} at=${job.waiting?.since ?? job.created_at} /></td>
          <td class="number">${job.waiting?.estimate_secs === undefined ? "" : `about ${duration(job.waiting.estimate_secs)}`}</td>
        </tr>`,
      )}
    </tbody>
  </table>`;
}
