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

export function ago(text, now) {
  const seconds = (now - Date.parse(text)) / 1_000;
  if (Number.isNaN(seconds)) return "";
  if (seconds < 5) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
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

/** A command as its submitter wrote it: a shell's text without the shell. */
export function written(command) {
  const [, text] = /^(?:\/bin\/)?sh -c '((?:[^']|'\\'')*)'$/.exec(command) ?? [];
  return text === undefined ? command : text.replaceAll("'\\''", "'");
}
