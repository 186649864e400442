// Findings, tests and crash reports of a job.
import { get, query } from "./api.js";
import { TestTable } from "./tests.js";
import { count, plural, visible } from "./format.js";
import { html, useEffect, useState } from "./vendor/htm-preact.js";

const LISTED = 200;
/** More passed tests than these are shown on request. */
const PASSED_SHOWN = 5;

export function place({ location }) {
  if (!location) return "";
  return [location.file, location.line, location.column].filter((part) => part !== null && part !== undefined).join(":");
}

function Excerpt({ finding }) {
  const part = (lines, kind) => lines?.map((line) => html`<span class=${kind}>${visible(line)}\n</span>`);
  return html`<pre tabindex="0" role="region" aria-label=${`Excerpt of finding ${finding.id}${finding.job ? ` of job ${finding.job}` : ""}`}>${part(finding.pre_context, "quiet")}<b>${visible(finding.message)}\n</b>${part(finding.post_context, "quiet")}</pre>`;
}

export function Finding({ finding, line, showLine, children }) {
  const isBad = ["FATAL", "ERROR"].includes(finding.severity);
  const facts = [finding.test && `test ${finding.test}`, finding.recurrence > 1 && `${count(finding.recurrence)} times`, finding.category].filter(Boolean);
  return html`<article class=${`finding ${isBad ? "bad" : ""}`} id=${`finding-${finding.id}`} tabindex="-1">
    <header>
      <strong class="command">${place(finding) || finding.severity.toLowerCase()}</strong>
      ${facts.length > 0 && html`<span class="quiet">${facts.join(" · ")}</span>`}
      ${children}
      ${line && html`<button type="button" class="link" onClick=${() => showLine(line)}>Line ${count(line)} of the log</button>`}
    </header>
    <${Excerpt} finding=${finding} />
  </article>`;
}

export function Findings({ result, lines, showLine }) {
  const main = result.tier_1_findings ?? [];
  const others = result.other_findings ?? [];
  if (main.length + others.length === 0) return null;
  return html`<section aria-labelledby="findings-title">
    <h2 id="findings-title">Findings <span class="quiet">${main.length + others.length}</span></h2>
    ${main.map((finding) => html`<${Finding} key=${finding.id} finding=${finding} line=${lines.get(finding.id)} showLine=${showLine} />`)}
    ${others.length > 0 &&
    html`<details open=${main.length === 0}>
      <summary>${plural(others.length, "other finding")}</summary>
      <ul>${others.map((finding) => html`<li key=${finding.id}>${visible(finding.message)}</li>`)}</ul>
    </details>`}
  </section>`;
}

export function TestResults({ result, project }) {
  const counts = result.tests;
  const [known, setKnown] = useState([]);
  const [isWhole, setWhole] = useState(false);
  useEffect(() => {
    if (!counts || !project) return undefined;
    let isCurrent = true;
    const known = (tests) => isCurrent && setKnown(tests);
    // A coordinator without a history of tests has only the counts.
    get(`tests${query({ project, limit: LISTED })}`).then((answer) => known(answer.tests), () => known([]));
    return () => (isCurrent = false);
  }, [result.job_id, result.state, project]);
  if (!counts) return null;
  const own = known.filter((test) => test.history.some((run) => run.job_id === result.job_id));
  const last = (test) => test.history.find((run) => run.job_id === result.job_id).result;
  own.sort((one, other) => (last(other) === "failed") - (last(one) === "failed") || (other.duration_p50_secs ?? 0) - (one.duration_p50_secs ?? 0));
  const notable = own.filter((test) => test.flaky || last(test) === "failed");
  const shown = isWhole || own.length - notable.length <= PASSED_SHOWN ? own : notable;
  const named = [...new Set([...(result.failed_tests ?? []), ...(result.tier_1_findings ?? []).map((finding) => finding.test).filter(Boolean)])];
  const parts = [
    [counts.failed, "failed", "bad"],
    [counts.passed, "passed", "good"],
    [counts.skipped, "skipped", "idle"],
    [counts.expected_failures, "expected failures", "idle"],
  ];
  return html`<section aria-labelledby="tests-title">
    <h2 id="tests-title">Tests <span class="quiet">${count(counts.total)}</span></h2>
    <p class="counts">${parts.filter(([number]) => number > 0).map(([number, name, tone]) => html`<span class=${tone}>${count(number)} ${name}</span> `)}<span class="quiet">from ${counts.source}</span></p>
    ${own.length > 0
      ? html`${shown.length > 0 && html`<${TestTable} tests=${shown} empty="" isOfJob />`}
          ${shown.length < own.length && html`<button type="button" onClick=${() => setWhole(true)}>Show all ${count(own.length)} tests</button>`}` : named.length > 0 && html`<ul class="failed-tests">${named.map((name) => html`<li class="command">${name}</li>`)}</ul>`}
  </section>`;
}

export function Crashes({ reports }) {
  if (!reports?.length) return null;
  return html`<section aria-labelledby="crash-title">
    <h2 id="crash-title">Crash ${reports.length === 1 ? "report" : "reports"}</h2>
    ${reports.map((report) => {
      const facts = [report.exception_type, report.signal, report.termination?.indicator, report.pid && `pid ${report.pid}`].filter(Boolean);
      return html`<article class="finding bad">
        <header><strong>${report.process_name}</strong> <span class="quiet">${facts.join(" · ")}</span></header>
        ${report.message && html`<p>${visible(report.message)}</p>`}
        ${report.top_frames?.length > 0 && html`<ol class="frames">${report.top_frames.map((frame) => html`<li><code>${visible(frame)}</code></li>`)}</ol>`}
        <p class="quiet">${report.file_path}</p>
      </article>`;
    })}
  </section>`;
}
