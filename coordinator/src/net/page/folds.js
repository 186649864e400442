// Groups of lines that a tool announces in its log, and which of them are closed.

/** Lines with which tools begin and end a group: GitHub, Azure, GitLab, Travis, Buildkite. */
export const FOLD_BEGINS = "^(::group::|##\\[group\\]|travis_fold:start|section_start:)";
export const FOLD_ENDS = "^(::endgroup::|##\\[endgroup\\]|travis_fold:end|section_end:)";
const FOLD_MARK = /^(::group::|##\[group\]|section_start:\d+:)/;

/** The first line of a group, without the tool's mark. */
export const heading = (text) => text.replace(FOLD_MARK, "");

/** Groups from the numbers of the lines that begin and end one. Numbers are from 1. */
function groups(begins, ends) {
  const marks = [...begins.map((line) => ({ line, isBegin: true })), ...ends.map((line) => ({ line }))].sort((one, other) => one.line - other.line);
  const open = [];
  const found = [];
  for (const { line, isBegin } of marks) {
    if (isBegin) open.push(line);
    else if (open.length > 0) found.push({ first: open.pop(), last: line, isClosed: false });
  }
  return found.filter((fold) => fold.last > fold.first).sort((one, other) => one.first - other.first);
}

export class Folds {
  constructor(begins = [], ends = []) {
    this.all = groups(begins, ends);
  }

  /** Closed groups that are not inside of others. They hide all of their lines but the first. */
  hidden() {
    const ranges = [];
    for (const fold of this.all) {
      if (fold.isClosed && (ranges.length === 0 || fold.last > ranges[ranges.length - 1].last)) ranges.push(fold);
    }
    return ranges;
  }

  /** The rows that show this many lines. */
  rows(lines) {
    return lines - this.hidden().reduce((sum, fold) => sum + fold.last - fold.first, 0);
  }

  /** The line of a row, both from 1. */
  lineOfRow(row) {
    let line = row;
    for (const fold of this.hidden()) {
      if (line <= fold.first) break;
      line += fold.last - fold.first;
    }
    return line;
  }

  rowOfLine(line) {
    let row = line;
    for (const fold of this.hidden()) {
      if (line > fold.last) row -= fold.last - fold.first;
      else if (line > fold.first) return row - (line - fold.first);
      else break;
    }
    return row;
  }

  /** Opens the groups that hide a line. */
  reveal(line) {
    for (const fold of this.all) if (line > fold.first && line <= fold.last) fold.isClosed = false;
  }

  setAll(isClosed) {
    for (const fold of this.all) fold.isClosed = isClosed;
  }
}
