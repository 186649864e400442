// Numbers, times and names as text.

export const count = (number) => number.toLocaleString("en-US");

export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 1) return seconds === 0 ? "0 s" : `${Math.max(1, Math.round(seconds * 1_000))} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3_600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86_400) return `${Math.floor(whole / 3_600)} h ${Math.floor((whole % 3_600) / 60)} min`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor((whole % 86_400) / 3_600)} h`;
}

/** `5 min ago`, or `in 5 min`. The clocks of browser and coordinator may differ by some seconds. */
export function ago(text, now) {
  const seconds = (now - Date.parse(text)) / 1_000;
  const length = Math.abs(seconds);
  if (Number.isNaN(seconds)) return "";
  if (length < 5) return "now";
  const [size, unit] = length < 60 ? [1, "s"] : length < 3_600 ? [60, "min"] : length < 86_400 ? [3_600, "h"] : [86_400, "d"];
  const whole = `${Math.floor(length / size)} ${unit}`;
  return seconds > 0 ? `${whole} ago` : `in ${whole}`;
}

export const absolute = (text) => new Date(text).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function bytes(number) {
  if (number < 1_000) return `${number} B`;
  const units = ["kB", "MB", "GB", "TB"];
  const power = Math.min(Math.floor(Math.log10(number) / 3), units.length);
  const scaled = number / 1_000 ** power;
  return `${scaled < 10 ? scaled.toFixed(1) : Math.round(scaled)} ${units[power - 1]}`;
}

/** The first 12 digits of an id, which the command line takes too. */
export const shortId = (id) => id.slice(0, 13);

/** The last part of a project's root. */
export const projectName = (project) => project?.split(/[/\\]/).filter(Boolean).pop() ?? "";

/** The verdict of a job that is done, else its state. */
export const standing = (job) => job.verdict ?? job.state;

export const words = (name) => name.replaceAll("_", " ");

/** Quotes an argument for a POSIX shell. */
export const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** Orders names so that `mini-2` comes before `mini-10`. */
export const byName = new Intl.Collator("en", { numeric: true, sensitivity: "base" }).compare;

/** Characters that don't show, or change the order of what shows. */
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/g;

export const visible = (text) => text.replace(HIDDEN, (one) => `\\u{${one.codePointAt(0).toString(16)}}`);

/** A quoted word of a shell as the text that it stands for, or undefined if more than one word is there. */
function unquoted(word) {
  const parts = [...word.matchAll(/'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^\s'"\\]+)/gs)];
  if (parts.reduce((sum, part) => sum + part[0].length, 0) !== word.length) return undefined;
  return parts.map(([, single, double, one, bare]) => single ?? double?.replace(/\\([$`"\\])/g, "$1") ?? one ?? bare).join("");
}

/** A command as its submitter wrote it: a shell's text without the shell. */
export function written(command) {
  const [, word] = /^(?:\/bin\/)?sh -c (.+)$/s.exec(command) ?? [];
  return (word && unquoted(word)) ?? command;
}
