// The form for a token, and the question before a link replaces a sign-in.
import { isLoopback, signIn, signInByCode } from "./api.js";
import { useTitle } from "./components.js";
import { html, useState } from "./vendor/htm-preact.js";

export function SignIn() {
  useTitle("Sign in");
  const [isKept, setKept] = useState(false);
  const submit = (event) => {
    event.preventDefault();
    const secret = new FormData(event.target).get("token").trim();
    if (secret) signIn(secret, isKept);
  };
  return html`<section class="sign-in">
    <h1>Sign in</h1>
    <p>Run <code>buildpool page</code> in a terminal: it opens this page and signs you in.</p>
    <form onSubmit=${submit}>
      <label for="token">Or enter a token of role submit, read or admin</label>
      <input id="token" name="token" type="password" autocomplete="off" spellcheck=${false} required />
      ${!isLoopback &&
      html`<label class="choice"><input type="checkbox" checked=${isKept} onChange=${() => setKept(!isKept)} /> Stay signed in on this browser</label>`}
      <button>Sign in</button>
    </form>
    <p class="quiet">An admin makes tokens with <code>buildpool token create --role submit --name NAME</code>.</p>
  </section>`;
}

/** Anybody can send a link. It must not let somebody work as another user without notice. */
export function Replacement({ offer: { secret, now, next }, done }) {
  useTitle("Sign in");
  const replace = () => {
    signInByCode(secret);
    done();
  };
  return html`<section class="sign-in">
    <h1>Sign in as another user?</h1>
    <p>The link signs in as <b>${next.name}</b> (role ${next.role}). You are signed in as <b>${now.name}</b> (role ${now.role}).</p>
    <div class="actions">
      <button type="button" onClick=${replace}>Sign in as ${next.name}</button>
      <button type="button" onClick=${done}>Stay signed in as ${now.name}</button>
    </div>
    <p class="quiet">Stay if you did not start <code>buildpool page</code> yourself.</p>
  </section>`;
}
