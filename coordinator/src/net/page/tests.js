// Tests over many jobs: failing, flaky, slow.
import { get, query } from "./api.js";
import { Dots } from "./charts.js";
import { Ago, Failure, Loading, jobAddress, useTitle } from "./components.js";
import { duration, projectName, visible, written } from "./format.js";
import { useLive } from "./live.js";
import { html } from "./vendor/htm-preact.js";

const KINDS = [
  ["failing", "Failing"],
  ["flaky", "Flaky"],
  ["slow", "Slow"],
];
const LISTED = 100;

/** A table of tests. Those of one job need no name of their command. */
export function TestTable({ tests, empty, isOfJob }) {
  if (tests.length === 0) return html`<p class="empty">${empty}</p>`;
  return html`<table class="jobs tests">
    <thead><tr><th scope="col">Test</th><th scope="col">Last runs</th><th scope="col">Failing since</th><th scope="col" class="number">Failed</th><th scope="col" class="number">Half under</th><th scope="col" class="number">90 % under</th></tr></thead>
    <tbody>
      ${tests.map(
        (test) => html`<tr key=${`${test.project} ${test.command} ${test.test}`}>
          <td class="main">
            <span class="command">${test.test}</span> ${test.flaky && html`<span class="badge">flaky</span>`}
            ${!isOfJob && html`<div class="quiet">${projectName(test.project)} ${visible(written(test.command))}</div>`}
          </td>
          <td class="state"><${Dots} history=${test.history} /></td>
          <td class="time">${test.failing_since && html`<a data-row href=${jobAddress(test.failing_since.job_id)}><${Ago} at=${test.failing_since.at} /></a>`}</td>
          <td class="number">${test.failed} of ${test.runs}</td>
          <td class="number extra">${duration(test.duration_p50_secs)}</td>
          <td class="number extra">${duration(test.duration_p90_secs)}</td>
        </tr>`,
      )}
    </tbody>
  </table>`;
}

export function Tests({ filter }) {
  useTitle("Tests");
  const kind = KINDS.some(([name]) => name === filter.kind) ? filter.kind : "failing";
  const { value, error } = useLive(
    (signal) => get(`tests${query({ [kind]: true, project: filter.project, branch: filter.branch, worker: filter.worker, limit: LISTED })}`, { signal }),
    [kind, filter.project, filter.branch, filter.worker],
    (event) => event.state === "done",
  );
  const isMissing = error?.status === 404;
  return html`
    <h1>Tests</h1>
    <p class="tabs">${KINDS.map(([name, label]) => html`<a key=${name} href=${`#/tests${query({ ...filter, kind: name })}`} aria-current=${name === kind ? "page" : undefined}>${label}</a>`)}</p>
    ${isMissing ? html`<p class="empty">This coordinator keeps no history of tests. A newer version does.</p>` : value ? html`<${Failure} error=${error} />` : html`<${Loading} error=${error} />`}
    ${value && html`<${TestTable} tests=${value.tests} empty=${`No test is ${kind}.`} />`}
  `;
}
