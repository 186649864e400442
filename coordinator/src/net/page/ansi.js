// A line of a log as a terminal would show it: colours, and progress that overwrites itself. The result is data: pieces
// of text with names of classes. It never becomes markup.
import { visible } from "./format.js";

/** ESC [ parameters letter; ESC ] text (BEL or ESC \); other sequences of two characters. */
const SEQUENCE = /\u001b\[([0-9;:?]*)[ -/]*([@-~])|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[@-_a-z=>]?/g;

/** What a terminal shows of a line with carriage returns: each part overwrites the one before it. */
function overwritten(text) {
  const parts = text.split("\r");
  const last = parts.findLast((part) => part.replace(SEQUENCE, "") !== "");
  return last ?? parts[parts.length - 1];
}

function apply(style, parameters) {
  const codes = parameters.split(/[;:]/).map(Number);
  let next = style;
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at];
    if (code === 0) next = {};
    else if (code === 1) next = { ...next, bold: true };
    else if (code === 2) next = { ...next, dim: true };
    else if (code === 3) next = { ...next, italic: true };
    else if (code === 4) next = { ...next, underline: true };
    else if (code === 22) next = { ...next, bold: false, dim: false };
    else if (code === 23) next = { ...next, italic: false };
    else if (code === 24) next = { ...next, underline: false };
    else if (code >= 30 && code <= 37) next = { ...next, colour: code - 30 };
    else if (code === 39) next = { ...next, colour: undefined };
    else if (code >= 40 && code <= 47) next = { ...next, ground: code - 40 };
    else if (code === 49) next = { ...next, ground: undefined };
    else if (code >= 90 && code <= 97) next = { ...next, colour: code - 82 };
    else if (code >= 100 && code <= 107) next = { ...next, ground: code - 92 };
    else if (code === 38 || code === 48) {
      // Colours of the large palettes: the 16 first ones are known, the others stay as they are.
      const known = codes[at + 1] === 5 && codes[at + 2] < 16 ? codes[at + 2] : undefined;
      next = { ...next, [code === 38 ? "colour" : "ground"]: known };
      at += codes[at + 1] === 5 ? 2 : 4;
    }
  }
  return next;
}

function classes(style) {
  const names = ["bold", "dim", "italic", "underline"].filter((name) => style[name]);
  if (style.colour !== undefined) names.push(`fg-${style.colour}`);
  if (style.ground !== undefined) names.push(`bg-${style.ground}`);
  return names.join(" ");
}

/** Returns `[{ text, class }]`. */
export function pieces(line) {
  const text = line.includes("\r") ? overwritten(line) : line;
  if (!text.includes("\u001b")) return [{ text: visible(text), class: "" }];
  const shown = [];
  let style = {};
  let from = 0;
  const push = (to) => to > from && shown.push({ text: visible(text.slice(from, to)), class: classes(style) });
  for (const match of text.matchAll(SEQUENCE)) {
    push(match.index);
    from = match.index + match[0].length;
    if (match[2] === "m") style = apply(style, match[1] ?? "");
  }
  push(text.length);
  return shown;
}

export const plain = (line) => pieces(line).map((piece) => piece.text).join("");
