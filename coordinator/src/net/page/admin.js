// Tokens, quotas, webhooks and the audit log, for admins.
import { change, get } from "./api.js";
import { Action, Ago, Failure, Loading, useTitle } from "./components.js";
import { useLive } from "./live.js";
import { Quotas } from "./quotas.js";
import { html, useRef, useState } from "./vendor/htm-preact.js";

const ENTRIES = 100;

function Tokens() {
  const { value, error, refresh } = useLive((signal) => get("tokens", { signal }), [], (event) => event.kind === "token_address");
  const [created, setCreated] = useState(null);
  const [failure, setFailure] = useState(null);
  const form = useRef();
  const create = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    const days = Number(given.get("days"));
    try {
      setCreated(await change("POST", "tokens", { name: given.get("name"), role: given.get("role"), ...(days > 0 ? { expires_secs: days * 86_400 } : {}) }));
      setFailure(null);
      form.current.reset();
      refresh();
    } catch (problem) {
      setFailure(problem);
    }
  };
  const revoke = (token) => async () => {
    await change("DELETE", `tokens/${token.id}`);
    refresh();
  };
  return html`<section aria-labelledby="tokens-title">
    <h2 id="tokens-title">Tokens</h2>
    ${value ? html`<${Failure} error=${error ?? failure} />` : html`<${Loading} error=${error} />`}
    <form class="filter" ref=${form} onSubmit=${create} aria-label="Create a token">
      <label>Name <input name="name" required pattern="[A-Za-z0-9_.\\-]+" /></label>
      <label>Role <select name="role"><option>submit</option><option>read</option><option>worker</option><option>admin</option></select></label>
      <label>Valid for days <input name="days" type="number" min="1" max="3650" placeholder="no limit" /></label>
      <div class="buttons"><button>Create</button></div>
    </form>
    ${created && html`<p class="notice" role="status">The token of ${created.name}, shown only now: <code class="secret">${created.token}</code></p>`}
    ${value &&
    html`<table class="jobs tokens">
      <thead><tr><th scope="col">Name</th><th scope="col">Role</th><th scope="col">Created</th><th scope="col">Validity</th><th scope="col">Id</th><td></td></tr></thead>
      <tbody>
        ${value.tokens.map(
          (token) => html`<tr key=${token.id}>
            <td class="main">${token.name}</td>
            <td>${token.role}</td>
            <td class="time wide"><${Ago} at=${token.created_at} /></td>
            <td class="time">${token.revoked_at ? "revoked" : token.expires_at ? html`ends <${Ago} at=${token.expires_at} />` : "unlimited"}</td>
            <td class="extra"><code>${token.id}</code></td>
            <td>${!token.revoked_at && html`<${Action} label="Revoke" isRisky run=${revoke(token)} confirm=${`Revoke the token of ${token.name}? Its jobs end.`} />`}</td>
          </tr>`,
        )}
      </tbody>
    </table>`}
  </section>`;
}

function Webhooks() {
  const { value, error, refresh } = useLive((signal) => get("webhooks", { signal }), [], () => false);
  const remove = (hook) => async () => {
    await change("DELETE", `webhooks/${hook.id}`);
    refresh();
  };
  return html`<section aria-labelledby="webhooks-title">
    <h2 id="webhooks-title">Webhooks</h2>
    ${value ? html`<${Failure} error=${error} />` : html`<${Loading} error=${error} />`}
    ${value?.webhooks.length === 0 && html`<p class="empty">No webhook. <code>POST /api/v1/webhooks</code> creates one.</p>`}
    ${value?.webhooks.length > 0 &&
    html`<table class="jobs">
      <thead><tr><th scope="col">Name</th><th scope="col">URL</th><th scope="col">Kinds</th><th scope="col">State</th><td></td></tr></thead>
      <tbody>
        ${value.webhooks.map(
          (hook) => html`<tr key=${hook.id}>
            <td class="main">${hook.name}</td>
            <td class="extra">${hook.url}</td>
            <td class="extra">${hook.kinds?.join(", ") || "all"}</td>
            <td>${hook.disabled ?? "active"}</td>
            <td><${Action} label="Remove" isRisky run=${remove(hook)} confirm=${`Remove the webhook ${hook.name}?`} /></td>
          </tr>`,
        )}
      </tbody>
    </table>`}
  </section>`;
}

function Audit() {
  const { value, error } = useLive((signal) => get(`audit?limit=${ENTRIES}`, { signal }), [], (event) => event.kind !== "job_state");
  const [text, setText] = useState("");
  const has = (entry) => Object.values(entry).some((one) => String(one).toLowerCase().includes(text.toLowerCase()));
  return html`<section aria-labelledby="audit-title">
    <h2 id="audit-title">Audit log</h2>
    ${value ? html`<${Failure} error=${error} />` : html`<${Loading} error=${error} />`}
    <div class="controls"><input data-search type="search" aria-label=${`Filter the newest ${ENTRIES} entries`} placeholder="Filter" value=${text} onInput=${(event) => setText(event.target.value)} /></div>
    ${value &&
    html`<table class="jobs">
      <thead><tr><th scope="col">Time</th><th scope="col">Who</th><th scope="col">Action</th><th scope="col">On</th><th scope="col">Details</th></tr></thead>
      <tbody>
        ${value.entries.filter(has).map(
          (entry) => html`<tr key=${entry.seq}>
            <td class="time"><${Ago} at=${entry.at} /></td>
            <td>${entry.actor}</td>
            <td>${entry.action}</td>
            <td class="main">${entry.subject}</td>
            <td class="extra">${entry.detail}${entry.peer && ` (${entry.peer})`}</td>
          </tr>`,
        )}
      </tbody>
    </table>`}
  </section>`;
}

export function Admin() {
  useTitle("Admin");
  return html`<h1>Admin</h1><${Tokens} /><${Quotas} /><${Webhooks} /><${Audit} />`;
}
