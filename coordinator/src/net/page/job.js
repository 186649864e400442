// One job: how it ended and why, then everything else.
import { change, get, query } from "./api.js";
import { Artifacts } from "./artifacts.js";
import { Runs } from "./charts.js";
import { Action, Ago, Coded, Copy, Failure, Icon, Loading, Ran, idOf, jobAddress, tone, useTitle, workerAddress } from "./components.js";
import { Crashes, Findings, TestResults } from "./findings.js";
import { absolute, byName, bytes, duration, plural, projectName, quoted, shortId, standing, visible, words, written } from "./format.js";
import { Log } from "./log.js";
import { useLive } from "./live.js";
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";

const VERBOSITIES = ["minimal", "normal", "full"];
const RUNS_SHOWN = 20;
const RUNS_ASKED = 60;
/** A longer command is not searched for. */
const COMMAND_MAX = 1_000;

/** The command line that submits the same job. */
function commandLine(result) {
  const labels = (result.labels ?? []).map((label) => `--label ${quoted(label)}`);
  const files = result.snapshot ? [] : ["--no-snapshot"];
  const directory = result.directory ? [`--cwd ${quoted(result.directory)}`] : [];
  return ["buildpool run", ...labels, ...files, ...directory, "--", result.command].join(" ");
}

function Why({ result }) {
  const name = standing(result);
  const live = [result.waiting?.reason, result.running_test && `runs ${result.running_test}`, result.silent_secs > 30 && `no output for ${duration(result.silent_secs)}`].filter(Boolean);
  return html`<section class=${`why ${tone(name)}`} aria-label="Result">
    <p class="verdict"><${Icon} name=${name} /> ${words(name)} ${result.exit_code > 0 && html`<span class="quiet">exit code ${result.exit_code}</span>`}</p>
    ${result.cause && html`<p class="cause">${visible(result.cause.text)} ${result.cause.known_from === "shell_convention" && html`<span class="quiet">(a guess from the exit code)</span>`}</p>`}
    ${live.map((text) => html`<p>${visible(text)}</p>`)}
    ${result.waiting?.position && html`<p class="quiet">Position ${result.waiting.position} in the queue${result.waiting.estimate_secs !== undefined && `; starts in about ${duration(result.waiting.estimate_secs)}`}</p>`}
    ${result.connected === false && result.worker && html`<p class="bad">The worker can't be reached now. The job goes on.</p>`}
    ${result.silent_failure && html`<p>Nothing in the output or the reports explains this end.</p>`}
    ${(result.notes ?? []).map((note) => html`<p class="quiet">${visible(note)}</p>`)}
    ${result.state === "done" && result.next?.length > 0 && html`<div class="next"><h2>Next</h2><ul>${result.next.map((step) => html`<li key=${step}>${step.startsWith("buildpool ") ? html`<code>${visible(step)}</code>` : html`<${Coded} text=${step} />`}</li>`)}</ul></div>`}
  </section>`;
}

function Facts({ result }) {
  const { snapshot, usage, setup } = result;
  const kept = snapshot?.kept_back?.length > 0 && `; kept back: ${snapshot.kept_back.join(", ")}`;
  const facts = [
    ["Worker", result.worker && html`<a href=${workerAddress(result.worker)}>${result.worker}</a>`],
    ["Submitter", result.submitter],
    ["Created", result.created_at && html`<${Ago} at=${result.created_at} /> <span class="quiet">${absolute(result.created_at)}</span>`],
    ["Waited", result.queued_secs !== undefined && duration(result.queued_secs)],
    ["Ran", html`<${Ran} job=${result} />`],
    ["Build", result.request_id && html`<a href=${`#/builds/${result.request_id}`}>${result.request_id.slice(0, 19)}</a>`],
    ["Labels", result.labels?.join(" ")],
    ["Directory", result.directory],
    ["Snapshot", snapshot && html`<code title=${snapshot.id}>${snapshot.id.slice(0, 12)}</code> ${plural(snapshot.files ?? 0, "file")}${kept}`],
    ["Setup", setup && `${setup.command}${setup.ran ? ` (${duration(setup.duration_secs)})` : " (not needed)"}`],
    ["Processor", usage && `${duration(usage.user_secs ?? 0)} user, ${duration(usage.system_secs ?? 0)} system`],
    ["Memory", usage?.max_rss_bytes && `${bytes(usage.max_rss_bytes)} at most`],
    ["Id", html`<code class="id">${result.job_id}</code>`],
  ];
  return html`<dl class="facts">${facts.filter(([, fact]) => fact).map(([key, fact]) => html`<dt>${key}</dt><dd>${fact}</dd>`)}</dl>`;
}

function AgentView({ id, version }) {
  const [verbosity, setVerbosity] = useState("minimal");
  const [shown, setShown] = useState("");
  useEffect(() => {
    let isCurrent = true;
    get(`jobs/${id}${query({ verbosity })}`).then((answer) => isCurrent && setShown(JSON.stringify(answer, null, 2)), (error) => isCurrent && setShown(error.message));
    return () => (isCurrent = false);
  }, [id, verbosity, version]);
  return html`<div>
    <div class="controls">
      <label>Verbosity <select value=${verbosity} onChange=${(event) => setVerbosity(event.target.value)}>${VERBOSITIES.map((one) => html`<option>${one}</option>`)}</select></label>
      <span class="quiet">The result as an agent gets it: ${plural(shown.length, "character")}</span>
    </div>
    <pre class="agent" tabindex="0" role="region" aria-label="The agent's view">${visible(shown)}</pre>
  </div>`;
}

/** The command as the heading. A long one is scrolled, and then it can have the focus. */
function Command({ text }) {
  const heading = useRef();
  const [isLong, setLong] = useState(false);
  useEffect(() => setLong(heading.current.scrollHeight > heading.current.clientHeight), [text]);
  return html`<h1 class="command" ref=${heading} tabindex=${isLong ? "0" : undefined}>${visible(text)}</h1>`;
}

function Attempts({ result, attempt }) {
  const earlier = result.earlier_attempts ?? [];
  if (earlier.length === 0) return null;
  const address = (number) => `${jobAddress(result.job_id)}?attempt=${number}`;
  return html`<section aria-labelledby="attempts-title">
    <h2 id="attempts-title">Attempts</h2>
    <ol class="attempts">
      ${earlier.map((one, index) => html`<li><a href=${address(one.attempt ?? index + 1)}>Attempt ${one.attempt ?? index + 1}</a> on ${one.worker}: ${visible(one.reason)}</li>`)}
      <li><a href=${jobAddress(result.job_id)}>Attempt ${result.attempt}</a> on ${result.worker}${attempt ? "" : " (shown)"}</li>
    </ol>
  </section>`;
}

/** The line of the log that each finding comes from. */
function useFindingLines(result) {
  const [lines, setLines] = useState(new Map());
  const findings = (result?.tier_1_findings ?? []).filter((finding) => finding.stream && !finding.evidence?.report);
  const key = findings.map((finding) => finding.id).join();
  useEffect(() => {
    if (!key) return;
    const at = findings.slice(0, 100).map((finding) => `${finding.stream}:${finding.evidence?.from ?? 0}`).join(",");
    get(`jobs/${result.job_id}/lines${query({ count: 0, at, attempt: result.attempt })}`).then(
      ({ places = [] }) => setLines(new Map(findings.map((finding, index) => [finding.id, places[index]]).filter(([, line]) => line))),
      () => {},
    );
  }, [key, result?.state]);
  return lines;
}

/** Whether the labels of a worker meet those that a job requests. A retry replaces a requested name. */
function fits(worker, labels) {
  return labels.every((text) => {
    const [key, ...value] = text.split("=");
    return key === "name" || (key in worker.labels && (value.length === 0 || worker.labels[key] === value.join("=")));
  });
}

/** Runs the job again on a worker that the user chooses. */
function RetryElsewhere({ result, retry, close }) {
  const { value, error } = useLive(async (signal) => (await get("workers", { signal })).workers, [], (event) => event.kind.startsWith("worker_"));
  const [chosen, setChosen] = useState("");
  const field = useRef();
  const able = (value ?? []).filter((worker) => worker.connected && !worker.quarantined && !worker.draining && fits(worker, result.labels ?? []));
  // First those that are not the one that ran it, and have a free slot.
  const load = (worker) => (worker.name === result.worker ? 2 : worker.busy >= worker.slots ? 1 : 0);
  able.sort((one, other) => load(one) - load(other) || byName(one.name, other.name));
  const name = chosen || able[0]?.name;
  useEffect(() => field.current?.focus(), [able.length > 0]);
  if (!value) return html`<${Failure} error=${error} />`;
  return html`<div class="elsewhere" onKeyDown=${(event) => event.key === "Escape" && close()}>
    ${able.length === 0
      ? html`<p class="quiet">No connected worker has the labels that this job requests.</p>`
      : html`<label>Worker <select ref=${field} value=${name} onChange=${(event) => setChosen(event.target.value)}>
          ${able.map((worker) => html`<option key=${worker.name} value=${worker.name}>${worker.name} (${worker.busy} of ${plural(worker.slots, "slot")} in use${worker.name === result.worker ? "; it ran this job" : ""})</option>`)}
        </select></label>
        <${Action} label=${`Retry on ${name}`} run=${() => retry(name)} />`}
    <button type="button" onClick=${close}>Close</button>
  </div>`;
}

function Actions({ result }) {
  const id = result.job_id;
  const [isChoosing, setChoosing] = useState(false);
  const retry = async (worker) => {
    const next = await change("POST", `jobs/${id}/retry`, worker ? { worker } : {});
    location.hash = jobAddress(next.job_id);
  };
  const isDone = result.state === "done";
  return html`<div class="actions">
    ${!isDone && html`<${Action} label="Cancel" isRisky run=${() => change("POST", `jobs/${id}/cancel`, { reason: "on the page" })} confirm="Cancel this job?" />`}
    ${isDone && html`<${Action} label="Retry" run=${() => retry()} />`}
    ${isDone && html`<button type="button" aria-expanded=${isChoosing} onClick=${() => setChoosing(!isChoosing)}>Retry on a worker…</button>`}
    <${Copy} text=${commandLine(result)} label="Copy as buildpool run" />
    ${isDone && isChoosing && html`<${RetryElsewhere} result=${result} retry=${retry} close=${() => setChoosing(false)} />`}
  </div>`;
}

/** The list has the project of a job. */
function useProject(result) {
  const [project, setProject] = useState(undefined);
  useEffect(() => {
    if (!result?.created_at) return undefined;
    let isCurrent = true;
    const at = Date.parse(result.created_at);
    const time = (ms) => new Date(at + ms).toISOString();
    const found = ({ jobs }) => isCurrent && setProject(jobs.find((job) => job.job_id === result.job_id)?.project ?? "");
    get(`jobs${query({ since: time(-1_000), until: time(1_000), limit: 100 })}`).then(found, () => isCurrent && setProject(""));
    return () => (isCurrent = false);
  }, [result?.job_id]);
  return project;
}

/** Whether the same command passed before, and where. */
function OtherRuns({ result, project }) {
  const { command } = result;
  const ask = async (signal) => {
    if (project === undefined || command.length > COMMAND_MAX) return [];
    const { jobs } = await get(`jobs${query({ command, project, limit: RUNS_ASKED })}`, { signal });
    return jobs.filter((job) => job.command === command && (job.project ?? "") === project).slice(0, RUNS_SHOWN).reverse();
  };
  const { value: jobs } = useLive(ask, [command, project], (event) => event.state === "done");
  if (!jobs || jobs.length < 2) return null;
  return html`<section aria-labelledby="runs-title">
    <h2 id="runs-title">Last runs of this command</h2>
    <${Runs} jobs=${jobs} current=${result.job_id} />
    <p><a href=${`#/jobs${query({ command, project })}`}>List them</a></p>
  </section>`;
}

export function Job({ id, attempt, line, me }) {
  const { value: result, error, refresh } = useLive((signal) => get(`jobs/${encodeURIComponent(id)}?verbosity=normal`, { signal }), [id], (event) => event.job_id?.startsWith(id));
  const project = useProject(result);
  const [tab, setTab] = useState("log");
  const lines = useFindingLines(result);
  const log = useRef();
  useTitle(result ? `${words(standing(result))}: ${written(result.command).slice(0, 60)}` : `Job ${shortId(id)}`, result && tone(standing(result)));
  if (!result) return html`<h1>Job ${shortId(id)}</h1><${Loading} error=${error} />`;
  const showLine = (number) => {
    setTab("log");
    location.hash = `${jobAddress(id)}#L${number}`;
    setTimeout(() => log.current?.scrollIntoView({ block: "start" }));
  };
  return html`
    <p class="crumbs"><a href="#/jobs">Jobs</a> ${project && html`<a href=${`#/jobs${query({ project })}`}>${projectName(project)}</a>`} ${idOf(result)}</p>
    <div class="head"><${Command} text=${written(result.command)} />${me.role !== "read" && html`<${Actions} result=${result} />`}</div>
    <${Failure} error=${error} />
    <div class="columns job">
      <div>
        <${Why} result=${result} />
        <${Findings} result=${result} lines=${lines} showLine=${showLine} />
        <${Crashes} reports=${result.crash_reports} />
        <${TestResults} result=${result} project=${project} />
      </div>
      <aside aria-label="Facts">
        <${Facts} result=${result} />
        <${Attempts} result=${result} attempt=${attempt} />
        <${OtherRuns} result=${result} project=${project} />
        ${result.warnings?.shown?.length > 0 && html`<details><summary>${plural(result.warnings.count, "warning")}</summary><ul>${result.warnings.shown.map((text) => html`<li>${visible(text)}</li>`)}</ul></details>`}
        <${Artifacts} result=${result} />
      </aside>
    </div>
    <section ref=${log} class="output" aria-label="Output">
      <p class="tabs" role="tablist">
        <button type="button" role="tab" id="tab-log" aria-selected=${tab === "log"} onClick=${() => setTab("log")}>Log</button>
        <button type="button" role="tab" id="tab-agent" aria-selected=${tab === "agent"} onClick=${() => setTab("agent")}>Agent's view</button>
      </p>
      <div role="tabpanel" aria-labelledby=${`tab-${tab}`}>
        ${tab === "log"
          ? html`<${Log} key=${`${result.job_id} ${attempt ?? result.attempt}`} id=${result.job_id} attempt=${attempt ?? (result.attempt || undefined)} isOver=${result.state === "done"} startedAt=${result.started_at} line=${line} findings=${lines} isBad=${tone(standing(result)) === "bad"} onGrowth=${refresh} />`
          : html`<${AgentView} id=${result.job_id} version=${result.state} />`}
      </div>
    </section>
  `;
}
