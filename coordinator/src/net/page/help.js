// The list of keys.
import { html } from "./vendor/htm-preact.js";

const KEYS = [
  ["j, k", "next row, previous row"],
  ["Enter", "open the row"],
  ["/", "search or filter"],
  ["n, N", "next match, previous match in a log"],
  ["g, G", "first line, last line of a log"],
  ["e", "next finding in a log"],
  ["w, t, f", "wrap long lines, show times, follow a log"],
  ["Shift and click", "select a range of lines"],
  ["?", "this list"],
  ["Escape", "close"],
];

export const Help = ({ close }) => html`
  <h2 id="help-title">Keys</h2>
  <dl class="keys">${KEYS.map(([keys, text]) => html`<dt><kbd>${keys}</kbd></dt><dd>${text}</dd>`)}</dl>
  <button type="button" onClick=${close}>Close</button>
`;
