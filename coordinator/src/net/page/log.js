// The log of a job: only the lines in view exist as elements, and only blocks of lines near them are fetched.
import { get, query, send } from "./api.js";
import { pieces } from "./ansi.js";
import { save } from "./job.js";
import { jobAddress } from "./components.js";
import { count } from "./format.js";
import { readEvents } from "./live.js";
import { Component, html } from "./vendor/htm-preact.js";

const ROW_PX = 19;
const BLOCK_LINES = 500;
const BLOCKS_MAX = 60;
/** Browsers limit the height of an element. A longer log is scrolled in proportion. */
const HEIGHT_MAX_PX = 8_000_000;
const MARGIN_ROWS = 20;
const GROWTH_MS = 250;
const SEARCH_MS = 300;
const RETRY_MS = 2_000;
/** Shortest time after which the view of the job is told that the log has grown. */
const TELL_MS = 3_000;
const RAW_BYTES_MAX = 50_000_000;

/** Lines with which tools begin and end a group: GitHub, Azure, GitLab, Travis, Buildkite. */
const FOLD_BEGINS = "^(::group::|##\\[group\\]|travis_fold:start|section_start:)";
const FOLD_ENDS = "^(::endgroup::|##\\[endgroup\\]|travis_fold:end|section_end:)";
const FOLD_MARK = /^(::group::|##\[group\]|section_start:\d+:)/;

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** `/expression/` is a regular expression; other text is searched as it is, in any case. */
const pattern = (text) => (/^\/.+\/$/.test(text) ? text.slice(1, -1) : `(?i)${escaped(text)}`);

function browserPattern(text) {
  try {
    return new RegExp(/^\/.+\/$/.test(text) ? text.slice(1, -1) : escaped(text), /^\/.+\/$/.test(text) ? "g" : "gi");
  } catch {
    return null;
  }
}

function parseLine(text) {
  const [, first, last] = /^L(\d+)(?:-L?(\d+))?$/.exec(text ?? "") ?? [];
  if (!first) return null;
  return { first: Number(first), last: Number(last ?? first) };
}

function clock(startedAt, ms) {
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

function Row({ number, line, top, isSelected, isCurrent, finding, fold, search, time, select, toggle }) {
  const kinds = ["line", line?.stream, isSelected && "selected", isCurrent && "current", finding && "has-finding"].filter(Boolean);
  const text = line && (fold ? line.text.replace(FOLD_MARK, "") : line.text);
  return html`<div class=${kinds.join(" ")} style=${{ transform: `translateY(${top}px)` }}>
    <a class="number" href=${`#L${number}`} aria-label=${`Line ${number}`} tabindex="-1" onClick=${(event) => (event.preventDefault(), select(number, event.shiftKey))}>${number}</a>
    ${time && html`<span class="at">${line ? time(line.at_ms) : ""}</span>`}
    <span class="mark" title=${finding ? "A finding comes from this line" : line?.stream === "stderr" ? "stderr" : undefined}>
      ${finding ? html`<button type="button" tabindex="-1" aria-label="Show the finding" onClick=${() => document.getElementById(`finding-${finding}`)?.scrollIntoView({ block: "center" })}>●</button>` : line?.stream === "stderr" ? "!" : ""}
    </span>
    ${fold && html`<button type="button" class="fold" aria-expanded=${!fold.isClosed} tabindex="-1" onClick=${() => toggle(fold)}>${fold.isClosed ? "▸" : "▾"}</button>`}
    <span class="text">${line ? marked(pieces(text), search) : "…"}${line?.cut_bytes > 0 && html`<span class="quiet"> ${count(line.cut_bytes)} bytes more</span>`}${fold?.isClosed && html`<span class="quiet"> ${count(fold.last - fold.first)} lines</span>`}</span>
  </div>`;
}

export class Log extends Component {
  constructor(properties) {
    super(properties);
    this.view = { current: null };
    this.blocks = new Map();
    this.pending = new Set();
    this.control = new AbortController();
    this.folds = [];
    this.failedAt = 0;
    this.toldAt = 0;
    this.state = {
      total: 0,
      isKnown: false,
      follows: !properties.isOver && !properties.line,
      hasTimes: false,
      searched: "",
      found: null,
      at: -1,
      selection: parseLine(properties.line),
      top: 0,
      height: 600,
    };
  }

  componentDidMount() {
    this.resize = new ResizeObserver(([entry]) => this.setState({ height: entry.contentRect.height }));
    this.resize.observe(this.view.current);
    this.keys = (event) => this.pressed(event);
    document.addEventListener("keydown", this.keys);
    this.begin();
  }

  componentWillUnmount() {
    this.control.abort();
    this.resize.disconnect();
    clearTimeout(this.searchTimer);
    document.removeEventListener("keydown", this.keys);
  }

  componentDidUpdate(before) {
    if (before.line !== this.props.line) {
      const selection = parseLine(this.props.line);
      this.setState({ selection, follows: false });
      if (selection) this.goTo(selection.first);
    }
    if (!before.isOver && this.props.isOver) this.refresh().then(() => this.findFolds(), () => {});
    if (this.state.follows) this.toEnd();
  }

  /** Asks for the first lines that are shown, and follows a log that grows. */
  async begin() {
    const { selection } = this.state;
    try {
      await this.fetchBlock(selection ? Math.floor((selection.first - 1) / BLOCK_LINES) : this.state.follows ? null : 0);
    } catch (error) {
      if (!this.control.signal.aborted) this.setState({ error, isKnown: true });
    }
    if (selection) this.goTo(selection.first);
    if (this.props.isOver) this.findFolds().catch(() => {});
    else this.follow();
  }

  /** Fetches a block of lines, or the last lines. */
  async fetchBlock(block) {
    const { id, attempt } = this.props;
    const from = block === null ? undefined : block * BLOCK_LINES + 1;
    const answer = await get(`jobs/${id}/lines${query({ attempt, from, count: BLOCK_LINES })}`, { signal: this.control.signal });
    if (block === null) {
      const last = Math.max(0, Math.floor((answer.total - 1) / BLOCK_LINES));
      this.setState({ total: answer.total, isKnown: true, error: null });
      // A tail does not begin where a block does, so the last block is fetched as such.
      if (answer.from === 1) this.keep(0, answer);
      else await this.fetchBlock(last);
      return;
    }
    this.keep(block, answer);
    this.setState({ total: answer.total, isKnown: true, error: null });
  }

  /** Keeps the lines of an answer, which may have fewer than a block, as the lines of the block. */
  keep(block, { lines }) {
    this.blocks.delete(block);
    this.blocks.set(block, lines);
    if (this.blocks.size > BLOCKS_MAX) this.blocks.delete(this.blocks.keys().next().value);
  }

  line(number) {
    const block = Math.floor((number - 1) / BLOCK_LINES);
    return this.blocks.get(block)?.[(number - 1) % BLOCK_LINES];
  }

  /** Fetches the blocks of lines that are shown and not here. */
  want(numbers) {
    if (Date.now() - this.failedAt < RETRY_MS) return;
    for (const number of numbers) {
      if (this.line(number)) continue;
      const block = Math.floor((number - 1) / BLOCK_LINES);
      const start = this.blocks.get(block)?.length ?? 0;
      if (this.pending.has(block)) continue;
      this.pending.add(block);
      const done = () => this.pending.delete(block);
      const fetched = start > 0 ? this.fetchRest(block, start) : this.fetchBlock(block);
      fetched.then(done, (error) => {
        done();
        this.failedAt = Date.now();
        if (!this.control.signal.aborted) this.setState({ error });
      });
    }
  }

  /** Fetches the lines of a block that an answer did not have, or that the log did not have yet. */
  async fetchRest(block, start) {
    const { id, attempt } = this.props;
    const answer = await get(`jobs/${id}/lines${query({ attempt, from: block * BLOCK_LINES + start + 1, count: BLOCK_LINES - start })}`, { signal: this.control.signal });
    this.keep(block, { lines: [...(this.blocks.get(block) ?? []).slice(0, start), ...answer.lines] });
    this.setState({ total: answer.total, error: null });
  }

  /** Asks for what the log has now. The last line may have grown too. */
  async refresh() {
    const last = Math.floor(Math.max(0, this.state.total - 1) / BLOCK_LINES);
    const here = this.blocks.get(last)?.length ?? 0;
    if (here > 1) await this.fetchRest(last, here - 1);
    else await this.fetchBlock(last);
  }

  /** Waits for output, and asks for it by lines. Output comes in many small parts, so not each of them is asked for. */
  async follow() {
    const { id, attempt } = this.props;
    let isBusy = false;
    let isMore = false;
    const grown = async () => {
      isMore = true;
      if (isBusy) return;
      isBusy = true;
      while (isMore && !this.control.signal.aborted) {
        isMore = false;
        await this.refresh().catch(() => {});
        if (Date.now() - this.toldAt > TELL_MS) {
          this.toldAt = Date.now();
          this.props.onGrowth();
        }
        await new Promise((done) => setTimeout(done, GROWTH_MS));
      }
      isBusy = false;
    };
    while (!this.control.signal.aborted && !this.props.isOver) {
      try {
        const path = `jobs/${id}/logs${query({ stream: "interleaved", tail: 1, attempt })}`;
        const answer = await send("GET", path, { accept: "text/event-stream", signal: this.control.signal });
        let isEnd = false;
        await readEvents(answer, (event) => {
          isEnd = event.event === "end";
          grown();
        });
        if (isEnd) return;
      } catch (error) {
        if (this.control.signal.aborted || error.status === 401) return;
      }
      await new Promise((done) => setTimeout(done, 2_000));
    }
  }

  async findFolds() {
    const { id, attempt } = this.props;
    const of = (grep) => get(`jobs/${id}/matches${query({ attempt, grep })}`, { signal: this.control.signal });
    const begins = await of(FOLD_BEGINS);
    if (begins.count === 0) return;
    const ends = await of(FOLD_ENDS);
    const marks = [...begins.lines.map((line) => ({ line, isBegin: true })), ...ends.lines.map((line) => ({ line }))].sort((one, other) => one.line - other.line);
    const open = [];
    const folds = [];
    for (const { line, isBegin } of marks) {
      if (isBegin) {
        open.push(line);
      } else if (open.length > 0) {
        folds.push({ first: open.pop(), last: line, isClosed: false });
      }
    }
    this.folds = folds.filter((fold) => fold.last > fold.first).sort((one, other) => one.first - other.first);
    this.setState({});
  }

  /** Ranges of lines that closed folds hide, without those inside of others. */
  hidden() {
    const ranges = [];
    for (const fold of this.folds) {
      if (!fold.isClosed || (ranges.length > 0 && fold.last <= ranges[ranges.length - 1].last)) continue;
      ranges.push(fold);
    }
    return ranges;
  }

  rows() {
    return this.state.total - this.hidden().reduce((sum, fold) => sum + fold.last - fold.first, 0);
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

  /** Height of all rows, height of the scrolled element, and how many pixels of rows a scrolled pixel is. */
  measures() {
    const content = this.rows() * ROW_PX;
    const scrolled = Math.min(content, HEIGHT_MAX_PX);
    const room = Math.max(1, scrolled - this.state.height);
    return { scrolled, scale: Math.max(1, (content - this.state.height) / room) };
  }

  goTo(line) {
    for (const fold of this.folds) if (line > fold.first && line <= fold.last) fold.isClosed = false;
    const { scale } = this.measures();
    const y = (this.rowOfLine(line) - 1) * ROW_PX - this.state.height / 3;
    this.setState({ follows: false }, () => {
      if (this.view.current) this.view.current.scrollTop = Math.max(0, y / scale);
    });
  }

  toEnd() {
    const { current } = this.view;
    if (current && current.scrollTop + current.clientHeight < current.scrollHeight - 1) current.scrollTop = current.scrollHeight;
  }

  scrolled() {
    const { current } = this.view;
    const isAtEnd = current.scrollTop + current.clientHeight >= current.scrollHeight - 2 * ROW_PX;
    // Only a person scrolls upwards: growth moves the end away from the view.
    const isUp = current.scrollTop < this.state.top - 1;
    const follows = isAtEnd ? this.state.follows || !this.props.isOver : this.state.follows && !isUp;
    this.setState({ top: current.scrollTop, follows });
  }

  select(number, isRange) {
    const { selection } = this.state;
    const first = isRange && selection ? Math.min(selection.first, number) : number;
    const last = isRange && selection ? Math.max(selection.last, number) : number;
    const text = first === last ? `L${first}` : `L${first}-L${last}`;
    const attempt = /\?attempt=\d+/.exec(location.hash)?.[0] ?? "";
    history.replaceState(null, "", `${jobAddress(this.props.id)}${attempt}#${text}`);
    this.setState({ selection: { first, last }, follows: false });
  }

  search(text) {
    clearTimeout(this.searchTimer);
    this.setState({ searched: text, found: null, at: -1 });
    if (text === "" || text === "/") return;
    this.searchTimer = setTimeout(async () => {
      try {
        const found = await get(`jobs/${this.props.id}/matches${query({ attempt: this.props.attempt, grep: pattern(text) })}`, { signal: this.control.signal });
        if (this.state.searched === text) this.setState({ found, at: -1, error: null }, () => found.count > 0 && this.step(1));
      } catch (error) {
        if (this.state.searched === text) this.setState({ error });
      }
    }, SEARCH_MS);
  }

  step(by) {
    const { found, at } = this.state;
    if (!found?.lines.length) return;
    const next = (at + by + found.lines.length) % found.lines.length;
    this.setState({ at: next });
    this.goTo(found.lines[next]);
  }

  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
    const act = {
      n: () => this.step(1),
      N: () => this.step(-1),
      g: () => this.goTo(1),
      G: () => this.goTo(this.state.total),
    }[event.key];
    if (act) {
      act();
      event.preventDefault();
    }
  }

  setAll(isClosed) {
    for (const fold of this.folds) fold.isClosed = isClosed;
    this.setState({});
  }

  async bytes() {
    const { id, attempt } = this.props;
    const answer = await send("GET", `jobs/${id}/logs${query({ stream: "interleaved", attempt })}`, { accept: "text/plain" });
    return answer.blob();
  }

  async raw() {
    // The window must be opened in the click itself.
    const opened = window.open("about:blank");
    const blob = await this.bytes();
    if (blob.size > RAW_BYTES_MAX || !opened) {
      opened?.close();
      save(blob, `${this.props.id}.log`);
      return;
    }
    opened.location = URL.createObjectURL(new Blob([blob], { type: "text/plain;charset=utf-8" }));
  }

  controls() {
    const { follows, hasTimes, searched, found, at, total } = this.state;
    const position = at >= 0 ? `${count(at + 1)} of ` : "";
    const isClosed = this.folds.some((fold) => !fold.isClosed);
    return html`<div class="controls">
      <input data-search type="search" placeholder="Search, or /expression/" aria-label="Search the log" value=${searched}
        onInput=${(event) => this.search(event.target.value)}
        onKeyDown=${(event) => event.key === "Enter" && (event.preventDefault(), this.step(event.shiftKey ? -1 : 1))} />
      <button type="button" aria-label="Previous match" disabled=${!found?.count} onClick=${() => this.step(-1)}>↑</button>
      <button type="button" aria-label="Next match" disabled=${!found?.count} onClick=${() => this.step(1)}>↓</button>
      <span class="quiet" role="status">${found ? (found.count === 0 ? "no match" : `${position}${count(found.count)} ${found.count === 1 ? "line" : "lines"}`) : ""}</span>
      <span class="space"></span>
      <span class="quiet">${count(total)} lines</span>
      ${this.folds.length > 0 && html`<button type="button" onClick=${() => this.setAll(isClosed)}>${isClosed ? "Close all groups" : "Open all groups"}</button>`}
      <label class="choice"><input type="checkbox" checked=${hasTimes} onChange=${() => this.setState({ hasTimes: !hasTimes })} /> Times</label>
      ${!this.props.isOver && html`<label class="choice"><input type="checkbox" checked=${follows} onChange=${() => this.setState({ follows: !follows })} /> Follow</label>`}
      <button type="button" onClick=${() => this.raw()}>Raw</button>
      <button type="button" onClick=${async () => save(await this.bytes(), `${this.props.id}.log`)}>Download</button>
    </div>`;
  }

  visibleRows() {
    const { top, height, selection, searched, found, at, hasTimes } = this.state;
    const { findings, startedAt } = this.props;
    const { scale } = this.measures();
    const rows = this.rows();
    const offset = top * scale;
    const first = Math.max(1, Math.floor(offset / ROW_PX) + 1 - MARGIN_ROWS);
    const last = Math.min(rows, Math.ceil((offset + height) / ROW_PX) + MARGIN_ROWS);
    const byLine = new Map([...findings].map(([finding, line]) => [line, finding]));
    const foldOf = new Map(this.folds.map((fold) => [fold.first, fold]));
    const search = searched ? browserPattern(searched) : null;
    const current = found?.lines[at];
    const shown = [];
    const numbers = [];
    for (let row = first; row <= last; row += 1) {
      const number = this.lineOfRow(row);
      numbers.push(number);
      shown.push(html`<${Row} key=${number} number=${number} line=${this.line(number)} top=${(row - 1) * ROW_PX - offset + top}
        isSelected=${selection && number >= selection.first && number <= selection.last} isCurrent=${number === current}
        finding=${byLine.get(number)} fold=${foldOf.get(number)} search=${search} time=${hasTimes && ((ms) => clock(startedAt, ms))}
        select=${(line, isRange) => this.select(line, isRange)} toggle=${(fold) => ((fold.isClosed = !fold.isClosed), this.setState({}))} />`);
    }
    setTimeout(() => this.view.current && this.want(numbers));
    return shown;
  }

  render() {
    const { error, isKnown, total } = this.state;
    const empty = isKnown && total === 0 && !error;
    return html`
      ${this.controls()}
      ${error && (error.status === 404 ? html`<p class="quiet">There is no log yet.</p>` : html`<p class="notice bad" role="alert">${error.message}</p>`)}
      ${empty && html`<p class="empty">${this.props.isOver ? "The log is empty." : "The log is empty so far."}</p>`}
      <div class=${`log ${this.state.hasTimes ? "with-times" : ""}`} ref=${this.view} tabindex="0" role="region" aria-label="Log" onScroll=${() => this.scrolled()} hidden=${empty}>
        <div class="lines" style=${{ height: `${this.measures().scrolled}px` }}>${this.visibleRows()}</div>
      </div>
    `;
  }
}
