// A line of a log: its number, marks, time and text.
import { pieces } from "./ansi.js";
import { count } from "./format.js";
import { heading } from "./folds.js";
import { html } from "./vendor/htm-preact.js";

const isExpression = (text) => /^\/.+\/$/.test(text);
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** `/expression/` is a regular expression; other text is searched as it is, in any case. */
export const pattern = (text) => (isExpression(text) ? text.slice(1, -1) : `(?i)${escaped(text)}`);

/** The same for the browser, which marks what the coordinator found. */
export function browserPattern(text) {
  try {
    return new RegExp(isExpression(text) ? text.slice(1, -1) : escaped(text), isExpression(text) ? "g" : "gi");
  } catch {
    return null;
  }
}

/** `L7` or `L7-L9` of an address. */
export function parseLine(text) {
  const [, first, last] = /^L(\d+)(?:-L?(\d+))?$/.exec(text ?? "") ?? [];
  if (!first) return null;
  return { first: Number(first), last: Number(last ?? first) };
}

export const writtenLines = ({ first, last }) => (first === last ? `L${first}` : `L${first}-L${last}`);

/** The time of a line on the clock, or since the start of the command where that is not known. */
export function clock(startedAt, ms) {
  if (!startedAt) return `+${(ms / 1_000).toFixed(3)}`;
  return new Date(Date.parse(startedAt) + ms).toTimeString().slice(0, 8);
}

/** Divides pieces where the search matches. */
function marked(parts, search) {
  if (!search) return parts.map((part) => html`<span class=${part.class}>${part.text}</span>`);
  return parts.map((part) => {
    const shown = [];
    let from = 0;
    for (const match of part.text.matchAll(search)) {
      if (match[0] === "") continue;
      shown.push(part.text.slice(from, match.index), html`<mark>${match[0]}</mark>`);
      from = match.index + match[0].length;
    }
    return html`<span class=${part.class}>${[...shown, part.text.slice(from)]}</span>`;
  });
}

/** A row of the list. Without `top` it follows the row before it. */
export function Row({ number, line, top, isSelected, isCurrent, finding, fold, search, time, select, toggle }) {
  const kinds = ["line", line?.stream, isSelected && "selected", isCurrent && "current", finding && "has-finding"].filter(Boolean);
  const text = line && (fold ? heading(line.text) : line.text);
  return html`<div class=${kinds.join(" ")} style=${top === undefined ? undefined : { transform: `translateY(${top}px)` }}>
    <a class="number" href=${`#L${number}`} aria-label=${`Line ${number}`} tabindex="-1" onClick=${(event) => (event.preventDefault(), select(number, event.shiftKey))}>${number}</a>
    ${time && html`<span class="at">${line ? time(line.at_ms) : ""}</span>`}
    <span class="mark" title=${finding ? "A finding comes from this line" : line?.stream === "stderr" ? "stderr" : undefined}>
      ${finding ? html`<button type="button" tabindex="-1" aria-label="Show the finding" onClick=${() => document.getElementById(`finding-${finding}`)?.scrollIntoView({ block: "center" })}>●</button>` : line?.stream === "stderr" ? "!" : ""}
    </span>
    ${fold && html`<button type="button" class="fold" aria-label="Group" aria-expanded=${!fold.isClosed} tabindex="-1" onClick=${() => toggle(fold)}>${fold.isClosed ? "▸" : "▾"}</button>`}
    <span class="text">${line ? marked(pieces(text), search) : "…"}${line?.cut_bytes > 0 && html`<span class="quiet"> ${count(line.cut_bytes)} bytes more</span>`}${fold?.isClosed && html`<span class="quiet"> ${count(fold.last - fold.first)} lines</span>`}</span>
  </div>`;
}
