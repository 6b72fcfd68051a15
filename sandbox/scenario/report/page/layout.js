// Where things stand: the head of a timeline stays, its lanes scroll.
const GUTTER = 168, STEP_HEIGHT = 16, CHART = 54, BAR_PIXELS = 4, COMMANDS = 10, PAD = 5;
const HEIGHTS = { life: 9, node: 4, module: 14, pod: 10, process: 13, fault: 13, endpoints: 13 };
const THINGS = { life: 'process', node: 'Node', module: 'module', pod: 'Pod', process: 'process', fault: 'fault', endpoints: 'endpoints' };
// What the rows of a base are called; the thin one of its Node has no room for a name.
const ROWS = { life: 'process', module: 'modules', pod: 'Pods' };
const TITLES = { component: '', faults: 'faults', service: 'Service ', waiting: 'Pods without a base', base: '' };

function layoutOf(run) {
  const head = [], lanes = [];
  let y = 22; // the axis
  let rows = 0;
  for (let i = 0; i < run.steps.length; i += STEP) rows = Math.max(rows, run.steps[i + 2] + 1);
  if (rows > 0) {
    head.push({ kind: 'steps', title: 'steps', y, height: rows * STEP_HEIGHT + PAD });
    y += rows * STEP_HEIGHT + PAD;
  }
  for (const stream of run.streams) {
    head.push({ kind: 'stream', title: 'requests: ' + text(stream.name), stream, y, height: CHART + PAD });
    y += CHART + PAD;
  }
  let top = 0;
  for (const lane of run.lanes) {
    const kind = text(lane.kind);
    const item = { kind, title: TITLES[kind] + text(lane.name), lane, y: top, rows: [], labels: [] };
    let inside = PAD;
    for (const row of lane.rows) {
      const thing = text(row.thing), height = HEIGHTS[thing];
      if (item.commands === undefined && kind === 'base' && lane.marks.length > 0 && thing !== 'life' && thing !== 'node') {
        item.commands = inside + 2; // between what the base is and what it has
        item.labels.push({ label: 'commands', y: inside + COMMANDS / 2 });
        inside += COMMANDS;
      }
      if (kind === 'base' && ROWS[thing] && !item.rows.some((r) => r.thing === thing)) item.labels.push({ label: ROWS[thing], y: inside + height / 2 });
      item.rows.push({ thing, bars: row.bars, y: inside, height });
      inside += height + 1;
    }
    item.height = Math.max(inside + PAD, 20);
    top += item.height;
    lanes.push(item);
  }
  return { head, headHeight: y, lanes, lanesHeight: top };
}

// barsOf sums the bins of a stream up to bars of a time at least, which is that of
// the pixels of one. A bar is from, to, sent, lost, and the answers by version.
function barsOf(run, stream, least) {
  const record = 3 + run.versions.length, { bins, width } = stream, span = Math.max(Math.ceil(least / width), 1) * width, bars = [];
  for (let i = 0; i < bins.length; i += record) {
    const from = bins[0] + Math.floor((bins[i] - bins[0]) / span) * span;
    if (bars.length === 0 || bars[bars.length - 1][0] !== from) bars.push([from, from + span, ...new Array(record - 1).fill(0)]);
    const bar = bars[bars.length - 1];
    for (let n = 1; n < record; n++) bar[n + 1] += bins[i + n];
  }
  return bars;
}
