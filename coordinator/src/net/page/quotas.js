// Quotas: the limits of each submitter, and what it uses now.
import { get } from "./api.js";
import { Failure, Loading } from "./components.js";
import { bytes, count, duration } from "./format.js";
import { useLive } from "./live.js";
import { html } from "./vendor/htm-preact.js";

/** Name in the configuration, heading, form of a value. The first three have a present use. */
const LIMITS = [
  ["queued_jobs", "Waiting jobs", count],
  ["running_jobs", "Running jobs", count],
  ["stored_snapshot_bytes", "Stored snapshots", bytes],
  ["job_secs", "Longest run", duration],
  ["log_bytes", "One log", bytes],
  ["snapshot_bytes", "One snapshot", bytes],
];

function Value({ name, form, limits, used }) {
  const limit = limits[name];
  if (used === undefined) return limit === undefined ? "no limit" : form(limit);
  if (limit === undefined) return html`${form(used)}<span class="quiet"> of no limit</span>`;
  return html`<span class=${used >= limit ? "bad" : ""}>${form(used)}<span class="quiet"> of ${form(limit)}</span></span>`;
}

export function Quotas() {
  const { value, error } = useLive((signal) => get("quotas", { signal }), [], (event) => event.kind === "job_state");
  const row = (name, limits, used) => html`<tr key=${name}>
    <th scope="row">${name}</th>
    ${LIMITS.map(([key, , form]) => html`<td key=${key}><${Value} name=${key} form=${form} limits=${limits} used=${used?.[key]} /></td>`)}
  </tr>`;
  return html`<section aria-labelledby="quotas-title">
    <h2 id="quotas-title">Quotas</h2>
    ${value ? html`<${Failure} error=${error} />` : html`<${Loading} error=${error} />`}
    ${value &&
    html`<p class="quiet">The tables <code>[quota]</code> and <code>[quota_of.NAME]</code> of the coordinator's configuration set them.</p>
      <div class="scroll" tabindex="0" role="region" aria-label="Quotas by submitter">
        <table class="quotas">
          <thead><tr><th scope="col">Submitter</th>${LIMITS.map(([key, heading]) => html`<th scope="col" key=${key} title=${key}>${heading}</th>`)}</tr></thead>
          <tbody>${value.submitters.map(({ submitter, limits, in_use: used }) => row(submitter, limits, used))}${row("every other", value.default)}</tbody>
        </table>
      </div>`}
  </section>`;
}
