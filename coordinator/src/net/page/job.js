// One job: how it ended and why, then everything else.
import { change, get, query, send } from "./api.js";
import { Action, Ago, Copy, Failure, Icon, Ran, idOf, jobAddress, tone, useTitle, workerAddress } from "./components.js";
import { Crashes, Findings, TestResults } from "./findings.js";
import { absolute, bytes, duration, plural, projectName, quoted, shortId, standing, visible, words, written } from "./format.js";
import { Log } from "./log.js";
import { useLive } from "./live.js";
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";

const IMAGE = /\.(png|jpe?g|gif|webp)$/i;
const TEXT = /\.(txt|log|json|xml|ya?ml|toml|md|csv|html?|swift|rs|diff|patch)$/i;
const SHOWN_BYTES_MAX = 5_000_000;
const TEXT_BYTES_MAX = 200_000;
const VERBOSITIES = ["minimal", "normal", "full"];

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

function Artifact({ job, artifact }) {
  const [shown, setShown] = useState(null);
  const path = `jobs/${job}/artifacts/${artifact.path.split("/").map(encodeURIComponent).join("/")}`;
  const fetched = async (limit) => (await send("GET", path, { accept: "*/*", headers: limit ? { Range: `bytes=0-${limit - 1}` } : {} })).blob();
  const isImage = IMAGE.test(artifact.path) && artifact.bytes <= SHOWN_BYTES_MAX;
  useEffect(() => {
    if (!isImage) return undefined;
    let address;
    fetched().then((blob) => setShown({ image: (address = URL.createObjectURL(new Blob([blob], { type: `image/${artifact.path.split(".").pop().toLowerCase().replace("jpg", "jpeg")}` }))) }), () => {});
    return () => address && URL.revokeObjectURL(address);
  }, [artifact.blake3]);
  const download = async () => save(await fetched(), artifact.path.split("/").pop());
  const show = async () => setShown({ text: await (await fetched(TEXT_BYTES_MAX)).text() });
  return html`<li>
    <span class="command">${artifact.path}</span> <span class="quiet">${bytes(artifact.bytes)}</span>
    ${TEXT.test(artifact.path) && !shown && html`<${Action} label="Show" run=${show} />`}
    <${Action} label="Download" run=${download} />
    ${shown?.image && html`<img src=${shown.image} alt=${`Artifact ${artifact.path}`} />`}
    ${shown?.text !== undefined && html`<pre tabindex="0" role="region" aria-label=${artifact.path}>${visible(shown.text)}</pre>${artifact.bytes > TEXT_BYTES_MAX && html`<p class="quiet">The first ${bytes(TEXT_BYTES_MAX)}</p>`}`}
  </li>`;
}

export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
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

function Actions({ result }) {
  const id = result.job_id;
  const retry = async () => {
    const next = await change("POST", `jobs/${id}/retry`, {});
    location.hash = jobAddress(next.job_id);
  };
  return html`<div class="actions">
    ${result.state !== "done" && html`<${Action} label="Cancel" isRisky run=${() => change("POST", `jobs/${id}/cancel`, { reason: "on the page" })} confirm="Cancel this job?" />`}
    ${result.state === "done" && html`<${Action} label="Retry" run=${retry} />`}
    <${Copy} text=${commandLine(result)} label="Copy as buildpool run" />
  </div>`;
}

export function Job({ id, attempt, line, me }) {
  const { value: result, error, refresh } = useLive((signal) => get(`jobs/${encodeURIComponent(id)}?verbosity=normal`, { signal }), [id], (event) => event.job_id?.startsWith(id));
  const [project, setProject] = useState("");
  const [tab, setTab] = useState("log");
  const lines = useFindingLines(result);
  const log = useRef();
  useTitle(result ? `${words(standing(result))}: ${written(result.command).slice(0, 60)}` : `Job ${shortId(id)}`);
  useEffect(() => {
    if (!result?.created_at) return;
    // The list has the project of a job.
    const since = result.created_at;
    const until = new Date(Date.parse(since) + 1_000).toISOString();
    get(`jobs${query({ since: new Date(Date.parse(since) - 1_000).toISOString(), until, limit: 100 })}`).then(({ jobs }) => setProject(jobs.find((job) => job.job_id === result.job_id)?.project ?? ""), () => {});
  }, [result?.job_id]);
  if (!result) return html`<h1>Job ${shortId(id)}</h1><${Failure} error=${error} />`;
  const showLine = (number) => {
    setTab("log");
    location.hash = `${jobAddress(id)}#L${number}`;
    setTimeout(() => log.current?.scrollIntoView({ block: "start" }));
  };
  return html`
    <p class="crumbs"><a href="#/jobs">Jobs</a> ${project && html`<a href=${`#/jobs${query({ project })}`}>${projectName(project)}</a>`} ${idOf(result)}</p>
    <div class="head"><h1 class="command">${visible(written(result.command))}</h1>${me.role !== "read" && html`<${Actions} result=${result} />`}</div>
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
        ${result.warnings?.shown?.length > 0 && html`<details><summary>${plural(result.warnings.count, "warning")}</summary><ul>${result.warnings.shown.map((text) => html`<li>${visible(text)}</li>`)}</ul></details>`}
        ${result.artifacts?.length > 0 && html`<section aria-labelledby="artifacts-title"><h2 id="artifacts-title">Artifacts</h2><ul class="artifacts">${result.artifacts.map((artifact) => html`<${Artifact} key=${artifact.path} job=${result.job_id} artifact=${artifact} />`)}</ul></section>`}
      </aside>
    </div>
    <section ref=${log} class="output" aria-label="Output">
      <p class="tabs" role="tablist">
        <button type="button" role="tab" id="tab-log" aria-selected=${tab === "log"} onClick=${() => setTab("log")}>Log</button>
        <button type="button" role="tab" id="tab-agent" aria-selected=${tab === "agent"} onClick=${() => setTab("agent")}>Agent's view</button>
      </p>
      <div role="tabpanel" aria-labelledby=${`tab-${tab}`}>
        ${tab === "log"
          ? html`<${Log} key=${`${result.job_id} ${attempt ?? result.attempt}`} id=${result.job_id} attempt=${attempt ?? (result.attempt || undefined)} isOver=${result.state === "done"} startedAt=${result.started_at} line=${line} findings=${lines} onGrowth=${refresh} />`
          : html`<${AgentView} id=${result.job_id} version=${result.state} />`}
      </div>
    </section>
  `;
}
