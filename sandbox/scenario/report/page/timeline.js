// One timeline on the page: zoom, pan, tooltips.
class Timeline {
  constructor(element, run) {
    this.run = run; this.layout = layoutOf(run);
    this.whole = [-run.length * 0.005 - 1, run.length * 1.01 + 1]; [this.from, this.to] = this.whole;
    element.replaceChildren(this.tools(), this.scroll = make('div', 'scroll'));
    this.canvas = make('canvas'); this.spacer = make('div');
    this.scroll.append(this.canvas, this.spacer);
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute('role', 'img');
    this.canvas.setAttribute('aria-label', 'timeline; the tables beneath have its steps, checks and requests');
    this.painter = new Painter(this.canvas, run, this.layout);
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.scroll);
  }

  tools() {
    const tools = make('div', 'tools');
    for (const [label, hint, act] of [['+', 'zoom in', () => this.zoom(0.5)], ['−', 'zoom out', () => this.zoom(2)], ['all', 'the whole run', () => this.show(...this.whole)]]) {
      const button = make('button', '', label);
      button.title = hint; button.addEventListener('click', act); tools.append(button);
    }
    tools.append(make('span', '', 'drag to move, Ctrl+wheel or + − to zoom, double-click to zoom in, 0 for all'));
    this.keys = make('span', 'key'); tools.append(this.keys);
    return tools;
  }

  // legend explains all colours, in those of the moment.
  legend() {
    this.keys.replaceChildren(...this.run.versions.flatMap((version, n) => {
      const box = make('canvas'); box.width = box.height = 10;
      const g = box.getContext('2d'); g.fillStyle = this.painter.colours.version(n); g.fillRect(0, 0, 10, 10);
      return [box, make('span', '', text(version))];
    }), ...LEGEND.flatMap(([thing, state, words]) => {
      const box = make('canvas'); box.width = 16; box.height = 10;
      this.painter.fill(box.getContext('2d'), 0, 0, 16, 10, lookOf(this.painter.colours, thing, state, 0));
      return [box, make('span', '', words)];
    }), make('span', '', 'lines: commands up to their answers, red if failed; yellow: a fault struck; red: a request lost'));
  }

  draw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.drawNow(); });
  }

  drawNow(unfold) {
    const { headHeight, lanesHeight } = this.layout, width = this.scroll.clientWidth;
    if (width < GUTTER + 50) return;
    const total = headHeight + lanesHeight;
    const height = unfold ? Math.min(total, 8000) : Math.min(total, Math.max(window.innerHeight * 0.78, headHeight + 120));
    this.spacer.style.height = (unfold ? 0 : total - height) + 'px';
    this.painter.ratio = unfold ? 1 : 0;
    this.painter.paint(width, height, this.from, this.to, unfold ? 0 : this.scroll.scrollTop);
    if (this.legendFor !== this.painter.colours.back) { this.legendFor = this.painter.colours.back; this.legend(); }
  }

  // show shows the times from..to, as far as there are any.
  show(from, to) {
    const [first, last] = this.whole, span = Math.min(Math.max(to - from, 200), last - first);
    this.from = Math.min(Math.max(from, first), last - span); this.to = this.from + span;
    this.draw();
  }

  zoom(factor, at) {
    const middle = at === undefined ? (this.from + this.to) / 2 : at;
    this.show(middle - (middle - this.from) * factor, middle + (this.to - middle) * factor);
  }

  listen() {
    const canvas = this.canvas;
    this.scroll.addEventListener('scroll', () => { hideTip(); this.draw(); });
    canvas.addEventListener('wheel', (e) => {
      if (e.ctrlKey || e.metaKey) { e.preventDefault(); this.zoom(Math.exp(e.deltaY * 0.004), this.painter.time(e.offsetX)); }
      else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) { e.preventDefault(); this.move(e.deltaX || e.deltaY); }
    }, { passive: false });
    canvas.addEventListener('dblclick', (e) => this.zoom(0.4, this.painter.time(e.offsetX)));
    canvas.addEventListener('pointerdown', (e) => { this.dragged = e.clientX; canvas.setPointerCapture(e.pointerId); hideTip(); });
    canvas.addEventListener('pointerup', () => { this.dragged = undefined; });
    canvas.addEventListener('pointercancel', () => { this.dragged = undefined; });
    canvas.addEventListener('pointerleave', hideTip);
    canvas.addEventListener('pointermove', (e) => {
      if (this.dragged === undefined) { showTip(this.at(e.offsetX, e.offsetY), e.clientX, e.clientY); return; }
      this.move(this.dragged - e.clientX); this.dragged = e.clientX;
    });
    canvas.addEventListener('keydown', (e) => {
      const act = { '+': () => this.zoom(0.5), '=': () => this.zoom(0.5), '-': () => this.zoom(2), '0': () => this.show(...this.whole), ArrowLeft: () => this.move(-80), ArrowRight: () => this.move(80) }[e.key];
      if (act && !e.ctrlKey && !e.metaKey) { e.preventDefault(); act(); }
    });
  }

  move(pixels) {
    const by = pixels / (this.painter.width - GUTTER) * (this.to - this.from);
    this.show(this.from + by, this.to + by);
  }

  // at says what is drawn at a place of the canvas; empty if nothing is.
  at(x, y) {
    const { head, headHeight, lanes } = this.layout;
    const find = (list, at) => list.find((item) => at >= item.y && at < item.y + item.height);
    if (y < headHeight) {
      const item = find(head, y);
      if (!item) return '';
      if (x < GUTTER) return item.kind === 'stream' ? `${item.title}\npeak ${item.stream.peak}/s\n${text(item.stream.route)}` : item.title;
      return item.kind === 'steps' ? this.stepAt(item, x, y) : this.requestsAt(item, x);
    }
    const item = find(lanes, y - headHeight + this.scroll.scrollTop);
    if (!item || x < GUTTER) return item ? item.title : '';
    return [...this.marksAt(item, x), this.barAt(item, x, y - headHeight + this.scroll.scrollTop - item.y)].filter((s) => s).join('\n');
  }

  stepAt(item, x, y) {
    const s = this.run.steps, row = Math.floor((y - item.y) / STEP_HEIGHT), t = this.painter.time(x), near = this.near();
    for (let i = 0; i < s.length; i += STEP)
      if (s[i + 2] === row && s[i] - near <= t && t <= s[i + 1] + near) return `${text(s[i + 4])}: ${text(s[i + 3])}\n${text(s[i + 5])}\n${range(s[i], s[i + 1])}`;
    return '';
  }

  requestsAt(item, x) {
    const { lost } = item.stream, t = this.painter.time(x), near = this.near(), lines = [];
    for (let n = firstAfter(lost, LOST, 0, t - near); n * LOST < lost.length && lost[n * LOST] <= t + near && lines.length < 6; n++)
      lines.push(`lost: ${text(lost[n * LOST + 1])} at ${moment(lost[n * LOST], 0)}; ${text(lost[n * LOST + 2])}`);
    const bar = this.painter.requests(item.stream).find((b) => b[0] <= t && t < b[1]);
    if (bar) {
      lines.push(`${range(bar[0], bar[1])}: ${bar[2]} sent, ${bar[3]} lost`);
      this.run.versions.forEach((version, v) => { if (bar[4 + v]) lines.push(`${text(version)}: ${bar[4 + v]}`); });
    }
    return lines.join('\n');
  }

  marksAt(item, x) {
    const marks = item.lane.marks, t = this.painter.time(x), near = this.near(), lines = [];
    for (let i = firstAfter(marks, MARK, 1, t - near); i * MARK < marks.length && marks[i * MARK + 1] <= t + near && lines.length < 6; i++)
      lines.push(`${text(marks[i * MARK + 2])}: ${text(marks[i * MARK + 3])}\n${range(marks[i * MARK], marks[i * MARK + 1])}`);
    return lines;
  }

  barAt(item, x, y) {
    const row = item.rows.find((r) => y >= r.y && y <= r.y + r.height);
    if (!row) return '';
    const t = this.painter.time(x), bars = row.bars, i = firstAfter(bars, BAR, 1, t - this.near() / 2) * BAR;
    if (i >= bars.length || bars[i] > t + this.near() / 2) return '';
    const name = text(bars[i + 4]), more = text(bars[i + 5]);
    return `${THINGS[row.thing]} ${name}: ${text(bars[i + 2])}${more ? '\n' + more : ''}\n${range(bars[i], bars[i + 1])}`;
  }

  // near is how much time three pixels are: what the pointer can hit.
  near() { return 3 * (this.to - this.from) / (this.painter.width - GUTTER); }
}

function range(from, to) {
  return to > from ? `${moment(from, 0)} to ${moment(to, 0)}, ${duration(to - from)}` : moment(from, 0);
}
