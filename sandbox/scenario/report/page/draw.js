// How things look. A painter draws one timeline onto its canvas.

// coloursOf reads the colours that the style sheet has for light, dark or paper.
function coloursOf(element) {
  const style = getComputedStyle(element), colours = {};
  for (const name of ['back', 'panel', 'line', 'text', 'weak', 'good', 'bad', 'warn', 'none', 'busy', 'v0', 'v1', 'v2', 'v3', 'v4', 'v5', 'v6', 'v7'])
    colours[name] = style.getPropertyValue('--' + name).trim();
  colours.version = (n) => n < 0 ? colours.none : colours['v' + (n % 8)];
  return colours;
}

// lookOf says how a state is drawn: its colour, and solid, pale or hatched.
function lookOf(c, thing, state, version) {
  switch (thing) {
    case 'life': return {
      ready: [c.good, 'solid'], connected: [c.busy, 'solid'], starting: [c.busy, 'hatched'],
      disconnected: [c.warn, 'solid'], down: [c.bad, 'hatched'],
    }[state] || [c.none, 'pale'];
    case 'node': return [state === 'Ready' ? c.good : c.warn, 'solid'];
    case 'module': return {
      ACTIVATED: [c.version(version), 'solid'], RESOLVED: [c.version(version), 'hatched'], DEACTIVATED: [c.version(version), 'pale'],
      BROKEN: [c.bad, 'solid'],
    }[state] || [c.version(version), 'pale'];
    case 'pod': return {
      ready: [c.version(version), 'solid'], pending: [c.none, 'hatched'], terminating: [c.none, 'pale'],
    }[state] || [c.version(version), 'hatched'];
    case 'process': return { running: [c.good, 'pale'], paused: [c.warn, 'hatched'], exited: [c.bad, 'hatched'] }[state] || [c.none, 'pale'];
    case 'fault': return [c.warn, 'hatched'];
    case 'endpoints': return { all: [c.good, 'pale'], some: [c.warn, 'pale'], none: [c.bad, 'solid'], empty: [c.bad, 'hatched'] }[state];
    case 'step': return { passed: [c.good, 'pale'], skipped: [c.none, 'hatched'] }[state] || [c.bad, 'solid'];
  }
  return [c.none, 'pale'];
}

// LEGEND names each look once: a thing, a state that has it, and what it means wherever it stands.
const LEGEND = [
  ['life', 'ready', 'process ready, Node Ready'], ['life', 'connected', 'connected'], ['life', 'starting', 'starting'],
  ['life', 'disconnected', 'disconnected, Node not Ready'], ['life', 'down', 'process down or exited, no endpoints'],
  ['module', 'ACTIVATED', 'version serves, Pod Ready'], ['module', 'RESOLVED', 'being installed, Pod not Ready'], ['module', 'DEACTIVATED', 'deactivated'],
  ['module', 'BROKEN', 'broken, no endpoint ready, step failed, request lost'], ['pod', 'pending', 'Pod pending, step skipped'], ['pod', 'terminating', 'Pod terminating'],
  ['process', 'running', 'component running, step passed, all endpoints ready'], ['process', 'paused', 'component paused, fault set'], ['endpoints', 'some', 'some endpoints ready'],
];

const FONT = '11px system-ui, sans-serif';
const MARKS = { failure: ['bad', 2], lost: ['bad', 1], fired: ['warn', 2] };

class Painter {
  constructor(canvas, run, layout) {
    this.canvas = canvas; this.run = run; this.layout = layout; this.context = canvas.getContext('2d');
  }

  // paint draws the times from..to of the lanes that begin at scroll.
  paint(width, height, from, to, scroll) {
    const g = this.context, ratio = this.ratio || window.devicePixelRatio || 1, c = this.colours = coloursOf(this.canvas);
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio); this.canvas.height = Math.round(height * ratio);
      this.canvas.style.height = height + 'px';
    }
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.fillStyle = c.back; g.fillRect(0, 0, width, height);
    g.font = FONT; g.textBaseline = 'middle';
    this.width = width; this.height = height; this.from = from; this.to = to; this.hatches = new Map();
    const head = this.layout.headHeight;
    this.grid(head, height);
    this.inside(0, head, () => { for (const item of this.layout.head) this[item.kind](item); });
    this.axis();
    this.inside(head, height, () => {
      for (const item of this.layout.lanes) {
        const y = head + item.y - scroll;
        if (y < height && y + item.height > head) this.lane(item, y);
      }
    });
    g.fillStyle = c.line; g.fillRect(0, head, width, 1); g.fillRect(GUTTER - 1, 0, 1, height);
  }

  x(time) { return GUTTER + (time - this.from) / (this.to - this.from) * (this.width - GUTTER); }
  time(x) { return this.from + (x - GUTTER) / (this.width - GUTTER) * (this.to - this.from); }

  inside(top, bottom, draw) {
    const g = this.context;
    g.save(); g.beginPath(); g.rect(0, top, this.width, bottom - top); g.clip(); draw(); g.restore();
  }

  eachTick(visit) {
    const tick = tickOf(this.to - this.from);
    for (let t = Math.ceil(this.from / tick) * tick; t <= this.to; t += tick) visit(t, this.x(t));
  }

  grid(top, bottom) {
    const g = this.context;
    g.globalAlpha = 0.45; g.fillStyle = this.colours.line;
    this.eachTick((t, x) => g.fillRect(x, 20, 1, bottom));
    g.globalAlpha = 1;
  }

  axis() {
    const g = this.context;
    g.fillStyle = this.colours.weak; g.textAlign = 'left';
    this.eachTick((t, x) => { if (x < this.width - 44) g.fillText(moment(t, this.to - this.from), x + 3, 11); });
  }

  title(label, y, colour, room = GUTTER - 16) {
    const g = this.context;
    g.fillStyle = colour || this.colours.text; g.textAlign = 'left'; g.fillText(this.fit(label, room), 8, y);
  }

  // fit cuts a label to its room, and ends what it cuts in "…".
  fit(label, room) {
    const g = this.context;
    if (g.measureText(label).width <= room) return label;
    let least = 0, most = label.length - 1;
    while (least < most) {
      const middle = (least + most + 1) >> 1;
      if (g.measureText(label.slice(0, middle) + '…').width <= room) least = middle; else most = middle - 1;
    }
    return least > 0 ? label.slice(0, least) + '…' : '';
  }

  // fill draws a look into a box, on any canvas.
  fill(g, left, y, width, height, [colour, way]) {
    g.fillStyle = colour;
    if (way === 'solid') { g.fillRect(left, y, width, height); return; }
    g.globalAlpha = way === 'pale' ? 0.28 : 0.14; g.fillRect(left, y, width, height); g.globalAlpha = 1;
    if (way === 'hatched' && width > 3) { g.fillStyle = this.hatch(colour); g.fillRect(left, y, width, height); }
    g.fillStyle = colour;
    if (height > 8 && width > 3) { g.fillRect(left, y, width, 1); g.fillRect(left, y + height - 1, width, 1); }
  }

  // bar draws a box, one pixel wide at least, with its label if there is room.
  bar(x1, x2, y, height, look, label) {
    const g = this.context, left = Math.max(x1, GUTTER), right = Math.min(Math.max(x2, x1 + 1), this.width);
    if (right <= left) return;
    const way = look[1];
    this.fill(g, left, y, right - left, height, look);
    if (x1 >= GUTTER) g.fillRect(left, y, 1, height);
    if (label && height >= 12 && right - left > 34) {
      const cut = this.fit(label, right - left - 8);
      if (way === 'hatched') { g.fillStyle = this.colours.back; g.fillRect(left + 2, y + 1, g.measureText(cut).width + 4, height - 2); }
      g.fillStyle = way === 'solid' ? this.colours.back : this.colours.text; g.textAlign = 'left'; g.fillText(cut, left + 4, y + height / 2 + 0.5);
    }
  }

  hatch(colour) {
    if (!this.hatches.has(colour)) {
      const tile = document.createElement('canvas'); tile.width = tile.height = 6;
      const g = tile.getContext('2d');
      g.strokeStyle = colour; g.lineWidth = 1.6; g.beginPath();
      for (const i of [-6, 0, 6]) { g.moveTo(i, 6); g.lineTo(i + 6, 0); }
      g.stroke();
      this.hatches.set(colour, this.context.createPattern(tile, 'repeat'));
    }
    return this.hatches.get(colour);
  }

  steps(item) {
    this.title(item.title, item.y + STEP_HEIGHT / 2);
    const s = this.run.steps;
    for (let i = 0; i < s.length; i += STEP)
      this.bar(this.x(s[i]), this.x(s[i + 1]), item.y + s[i + 2] * STEP_HEIGHT, STEP_HEIGHT - 2, lookOf(this.colours, 'step', text(s[i + 3])), text(s[i + 4]));
  }

  // requests are the bars of a stream, as fine as pixels allow.
  requests(stream) { return barsOf(this.run, stream, BAR_PIXELS * (this.to - this.from) / (this.width - GUTTER)); }

  // stream draws the rate as stacked boxes, by the version that answered, what was
  // lost on top, and beneath a line for each lost request.
  stream(item) {
    const g = this.context, c = this.colours, { peak, lost } = item.stream, floor = item.y + CHART - 8, room = CHART - 14;
    this.title(item.title, item.y + 12); this.title('peak ' + peak + '/s', item.y + 28, c.weak); this.title(text(item.stream.route), item.y + 44, c.weak);
    const bars = this.requests(item.stream).filter((b) => b[1] > this.from && b[0] < this.to), most = Math.max(1, ...bars.map((b) => b[2]));
    for (const bar of bars) {
      const left = Math.max(this.x(bar[0]), GUTTER), right = this.x(bar[1]) - 1;
      if (right <= left) continue;
      let y = floor;
      const stack = (n, colour) => {
        if (n === 0) return;
        const height = Math.max(n / most * room, 1);
        g.fillStyle = colour; y -= height; g.fillRect(left, y, right - left, height);
      };
      for (let v = 0; v < this.run.versions.length; v++) stack(bar[4 + v], c.version(v));
      stack(bar[3], c.bad);
    }
    g.fillStyle = c.line; g.fillRect(GUTTER, floor, this.width, 1);
    g.fillStyle = c.bad;
    let last = -1;
    for (let n = firstAfter(lost, LOST, 0, this.from - 1); n * LOST < lost.length && lost[n * LOST] <= this.to; n++) {
      const x = Math.floor(this.x(lost[n * LOST]));
      if (x !== last) g.fillRect(last = x, floor + 1, 1, 8);
    }
  }

  lane(item, y) {
    const g = this.context, c = this.colours;
    g.fillStyle = c.line; g.globalAlpha = 0.6; g.fillRect(0, y + item.height - 1, this.width, 1); g.globalAlpha = 1;
    this.title(item.title, y + Math.min(item.height, 24) / 2, c.text, item.labels.length ? GUTTER - 72 : undefined);
    g.fillStyle = c.weak; g.textAlign = 'right'; g.font = '9px system-ui, sans-serif';
    for (const { label, y: beneath } of item.labels) g.fillText(label, GUTTER - 6, y + beneath);
    g.font = FONT;
    for (const row of item.rows) this.row(row, y + row.y);
    this.commands(item, y);
    for (const kind of ['fired', 'failure']) this.marks(item.lane.marks, kind, y + PAD, item.height - 2 * PAD);
    this.marks(item.lane.marks, 'lost', y + (item.commands || PAD) - 1, COMMANDS - 1);
  }

  // row draws bars; where many share a pixel, the first stands for all of them, so
  // that a row costs no more than its pixels.
  row(row, y) {
    const bars = row.bars, n = bars.length / BAR;
    for (let i = firstAfter(bars, BAR, 1, this.from - 1); i < n && bars[i * BAR] <= this.to;) {
      const at = i * BAR, x1 = this.x(bars[at]), x2 = this.x(bars[at + 1]);
      const label = row.thing === 'module' || row.thing === 'pod' ? text(bars[at + 4]) : row.thing === 'process' ? [text(bars[at + 2]), text(bars[at + 5])].filter((s) => s).join(': ') : text(bars[at + 5] || bars[at + 4]);
      this.bar(x1, x2, y, row.height, lookOf(this.colours, row.thing, text(bars[at + 2]), bars[at + 3]), label);
      i = x2 - x1 >= 1 ? i + 1 : Math.max(i + 1, firstAfter(bars, BAR, 1, this.time(x1 + 1)));
    }
  }

  // commands draws each from its question to its answer.
  commands(item, y) {
    if (item.commands === undefined) return;
    const g = this.context, marks = item.lane.marks;
    let last = -9;
    for (let i = firstAfter(marks, MARK, 1, this.from - 1); i * MARK < marks.length && marks[i * MARK] <= this.to; i++) {
      const kind = text(marks[i * MARK + 2]), x2 = this.x(marks[i * MARK + 1]), x1 = Math.max(this.x(marks[i * MARK]), GUTTER);
      if (kind !== 'command' && kind !== 'failure' || x2 - last < 1) continue;
      last = x2;
      g.fillStyle = this.colours[kind === 'command' ? 'weak' : 'bad'];
      g.fillRect(x1, y + item.commands + 2, Math.max(x2 - x1, 1), 1);
      g.fillRect(x2 - 2, y + item.commands, 2, 5);
    }
  }

  marks(marks, kind, y, height) {
    const g = this.context, [colour, width] = MARKS[kind];
    g.fillStyle = this.colours[colour];
    let last = -9;
    for (let i = firstAfter(marks, MARK, 1, this.from - 1); i * MARK < marks.length && marks[i * MARK + 1] <= this.to; i++) {
      if (text(marks[i * MARK + 2]) !== kind) continue;
      const x = this.x(marks[i * MARK + 1]);
      if (x - last < 1) continue;
      last = x;
      g.fillRect(x - width / 2, y, width, height);
    }
  }
}
