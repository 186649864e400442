// The log of a job: only the lines in view exist as elements, and only blocks of lines near them are fetched.
import { get, query, send } from "./api.js";
import { Copy, Loading, jobAddress, save } from "./components.js";
import { FOLD_BEGINS, FOLD_ENDS, Folds } from "./folds.js";
import { count, plural } from "./format.js";
import { Row, browserPattern, clock, parseLine, pattern, writtenLines } from "./lines.js";
import { readEvents } from "./live.js";
import { Component, html } from "./vendor/htm-preact.js";

const ROW_PX = 19;
const BLOCK_LINES = 500;
const BLOCKS_MAX = 60;
/** Browsers limit the height of an element. A longer log is scrolled in proportion. */
const HEIGHT_MAX_PX = 8_000_000;
const MARGIN_ROWS = 20;
/** With wrapped lines, a log of as many rows is there as a whole, and the browser scrolls it. */
const WHOLE_ROWS_MAX = BLOCK_LINES;
const GROWTH_MS = 250;
const SEARCH_MS = 300;
const RETRY_MS = 2_000;
/** Shortest time after which the view of the job is told that the log has grown. */
const TELL_MS = 3_000;
const RAW_BYTES_MAX = 50_000_000;
/** Width of the columns before the text, about. */
const GUTTER_PX = 110;
const WRAPS = "buildpool.wraps";

export class Log extends Component {
  constructor(properties) {
    super(properties);
    this.view = { current: null };
    this.blocks = new Map();
    this.pending = new Set();
    this.control = new AbortController();
    this.folds = new Folds();
    this.failedAt = 0;
    this.toldAt = 0;
    this.state = {
      total: 0,
      isKnown: false,
      follows: !properties.isOver && !properties.line,
      hasTimes: false,
      wraps: localStorage.getItem(WRAPS) !== null,
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
    if (before.findings.size === 0) this.toFirstFinding();
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
    else this.toFirstFinding();
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
    this.folds = new Folds(begins.lines, (await of(FOLD_ENDS)).lines);
    this.setState({});
  }

  rows() {
    return this.folds.rows(this.state.total);
  }

  /** Whether the rows follow each other, and the browser scrolls them. */
  isWhole() {
    return this.state.wraps && this.rows() <= WHOLE_ROWS_MAX;
  }

  /** Height of all rows, height of the scrolled element, and how many pixels of rows a scrolled pixel is. */
  measures() {
    const content = this.rows() * ROW_PX;
    const scrolled = Math.min(content, HEIGHT_MAX_PX);
    const room = Math.max(1, scrolled - this.state.height);
    return { scrolled, scale: Math.max(1, (content - this.state.height) / room) };
  }

  goTo(line) {
    this.folds.reveal(line);
    this.setState({ follows: false }, () => {
      const { current } = this.view;
      if (!current) return;
      const row = this.folds.rowOfLine(line);
      if (this.isWhole()) {
        const element = current.querySelectorAll(".line")[row - 1];
        if (element) current.scrollTop += element.getBoundingClientRect().top - current.getBoundingClientRect().top - this.state.height / 3;
      } else if (this.state.wraps) {
        current.scrollTop = ((row - 1) / Math.max(1, this.rows() - 1)) * (this.measures().scrolled - this.state.height);
      } else {
        current.scrollTop = Math.max(0, ((row - 1) * ROW_PX - this.state.height / 3) / this.measures().scale);
      }
    });
  }

  /** Lines that findings come from, in their order. */
  findingLines() {
    return [...new Set(this.props.findings.values())].sort((one, other) => one - other);
  }

  /** The log of a failure opens where the failure is. */
  toFirstFinding() {
    const [first] = this.findingLines();
    if (first && this.state.isKnown && this.props.isBad && this.props.isOver && !this.state.selection && this.state.top === 0) this.goTo(first);
  }

  nextFinding() {
    const lines = this.findingLines();
    if (lines.length === 0) return;
    this.shownFinding = lines.find((line) => line > (this.shownFinding ?? 0)) ?? lines[0];
    this.goTo(this.shownFinding);
    this.setState({ selection: { first: this.shownFinding, last: this.shownFinding } });
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
    const attempt = /\?attempt=\d+/.exec(location.hash)?.[0] ?? "";
    history.replaceState(null, "", `${jobAddress(this.props.id)}${attempt}#${writtenLines({ first, last })}`);
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
      e: () => this.nextFinding(),
      w: () => this.wrap(),
      t: () => this.setState({ hasTimes: !this.state.hasTimes }),
      f: () => this.props.isOver || this.setState({ follows: !this.state.follows }),
    }[event.key];
    if (act) {
      act();
      event.preventDefault();
    }
  }

  wrap() {
    const wraps = !this.state.wraps;
    if (wraps) localStorage.setItem(WRAPS, "yes");
    else localStorage.removeItem(WRAPS);
    const line = this.folds.lineOfRow(Math.max(1, Math.round((this.state.top / Math.max(1, this.measures().scrolled - this.state.height)) * this.rows())));
    const { follows } = this.state;
    this.setState({ wraps }, () => (follows ? this.toEnd() : this.goTo(line)));
  }

  setAll(isClosed) {
    this.folds.setAll(isClosed);
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
    const { follows, hasTimes, searched, found, at, total, wraps, selection } = this.state;
    const position = at >= 0 ? `${count(at + 1)} of ` : "";
    const isClosed = this.folds.all.some((fold) => !fold.isClosed);
    const findings = this.findingLines();
    return html`<div class="controls">
      <input data-search type="search" placeholder="Search, or /expression/" aria-label="Search the log" value=${searched}
        onInput=${(event) => this.search(event.target.value)}
        onKeyDown=${(event) => event.key === "Enter" && (event.preventDefault(), this.step(event.shiftKey ? -1 : 1))} />
      <button type="button" aria-label="Previous match" disabled=${!found?.count} onClick=${() => this.step(-1)}>↑</button>
      <button type="button" aria-label="Next match" disabled=${!found?.count} onClick=${() => this.step(1)}>↓</button>
      <span class="quiet" role="status">${found ? (found.count === 0 ? "no match" : `${position}${count(found.count)} ${found.count === 1 ? "line" : "lines"}`) : ""}</span>
      <span class="space"></span>
      <span class="quiet">${plural(total, "line")}</span>
      ${findings.length > 0 && html`<button type="button" onClick=${() => this.nextFinding()}>${findings.length === 1 ? "Finding" : `Next of ${findings.length} findings`}</button>`}
      ${selection && html`<${Copy} key=${writtenLines(selection)} text=${location.href} label=${`Copy link to ${writtenLines(selection)}`} />`}
      ${this.folds.all.length > 0 && html`<button type="button" onClick=${() => this.setAll(isClosed)}>${isClosed ? "Close all groups" : "Open all groups"}</button>`}
      <label class="choice"><input type="checkbox" checked=${hasTimes} onChange=${() => this.setState({ hasTimes: !hasTimes })} /> Times</label>
      <label class="choice"><input type="checkbox" checked=${wraps} onChange=${() => this.wrap()} /> Wrap</label>
      ${!this.props.isOver && html`<label class="choice"><input type="checkbox" checked=${follows} onChange=${() => this.setState({ follows: !follows })} /> Follow</label>`}
      <button type="button" onClick=${() => this.raw()}>Raw</button>
      <button type="button" onClick=${async () => save(await this.bytes(), `${this.props.id}.log`)}>Download</button>
    </div>`;
  }

  /** Returns the function that draws the row of a line. */
  drawing() {
    const { selection, searched, found, at, hasTimes } = this.state;
    const { findings, startedAt } = this.props;
    const byLine = new Map([...findings].map(([finding, line]) => [line, finding]));
    const foldOf = new Map(this.folds.all.map((fold) => [fold.first, fold]));
    const search = searched ? browserPattern(searched) : null;
    const current = found?.lines[at];
    return (number, top) => html`<${Row} key=${number} number=${number} line=${this.line(number)} top=${top}
      isSelected=${selection && number >= selection.first && number <= selection.last} isCurrent=${number === current}
      finding=${byLine.get(number)} fold=${foldOf.get(number)} search=${search} time=${hasTimes && ((ms) => clock(startedAt, ms))}
      select=${(line, isRange) => this.select(line, isRange)} toggle=${(fold) => ((fold.isClosed = !fold.isClosed), this.setState({}))} />`;
  }

  /** The lines of some rows. Those that are not here are fetched. */
  linesOf(first, last) {
    const numbers = [];
    for (let row = Math.max(1, first); row <= Math.min(this.rows(), last); row += 1) numbers.push(this.folds.lineOfRow(row));
    setTimeout(() => this.view.current && this.want(numbers));
    return numbers;
  }

  /** Rows of one height, each at its place. */
  evenRows() {
    const { top, height } = this.state;
    const { scale, scrolled } = this.measures();
    const offset = top * scale;
    const first = Math.max(1, Math.floor(offset / ROW_PX) + 1 - MARGIN_ROWS);
    const numbers = this.linesOf(first, Math.ceil((offset + height) / ROW_PX) + MARGIN_ROWS);
    const draw = this.drawing();
    return html`<div class="lines" style=${{ height: `${scrolled}px` }}>${numbers.map((number, index) => draw(number, (first + index - 1) * ROW_PX - offset + top))}</div>`;
  }

  /**
   * Rows of wrapped lines, whose heights are not known before they are drawn. The row at a part of the log is drawn at the
   * same part of the view, the others before and after it: the first row is at the top, the last one at the bottom.
   */
  wrappedRows() {
    const { top, height } = this.state;
    const rows = this.rows();
    const draw = this.drawing();
    if (this.isWhole()) return html`<div class="lines">${this.linesOf(1, rows).map((number) => draw(number))}</div>`;
    const { scrolled } = this.measures();
    const part = Math.min(1, top / Math.max(1, scrolled - height));
    const row = Math.min(rows, Math.floor(part * rows) + 1);
    const around = Math.ceil(height / ROW_PX) + 2;
    const columns = Math.max(20, Math.floor(((this.view.current?.clientWidth ?? 800) - GUTTER_PX) / (ROW_PX * 0.38)));
    const tall = Math.ceil((this.line(this.folds.lineOfRow(row))?.text.length || 1) / columns) * ROW_PX;
    const from = part * height - (part * rows - row + 1) * tall;
    return html`<div class="lines" style=${{ height: `${scrolled}px` }}>
      <div class="window" style=${{ height: `${height}px` }}>
        <div class="before" style=${{ bottom: `${height - from}px` }}>${this.linesOf(row - around, row - 1).map((number) => draw(number))}</div>
        <div class="after" style=${{ top: `${from}px` }}>${this.linesOf(row, row + around).map((number) => draw(number))}</div>
      </div>
    </div>`;
  }

  render() {
    const { error, isKnown, total, hasTimes, wraps } = this.state;
    const empty = isKnown && total === 0 && !error;
    return html`
      ${this.controls()}
      ${error && (error.status === 404 ? html`<p class="quiet">There is no log yet.</p>` : html`<p class="notice bad" role="alert">${error.message}</p>`)}
      ${!isKnown && html`<${Loading} />`}
      ${empty && html`<p class="empty">${this.props.isOver ? "The log is empty." : "The log is empty so far."}</p>`}
      <div class=${`log ${hasTimes ? "with-times" : ""} ${wraps ? "wraps" : ""}`} ref=${this.view} tabindex="0" role="region" aria-label="Log" onScroll=${() => this.scrolled()} hidden=${empty || !isKnown}>
        ${wraps ? this.wrappedRows() : this.evenRows()}
      </div>
    `;
  }
}
