// Where things stand: the head of a timeline stays, its lanes scroll.
const GUTTER = 168, STEP_HEIGHT = 16, CHART = 54, COMMANDS = 8, PAD = 5;
const HEIGHTS = { life: 6, node: 3, module: 14, pod: 9, process: 13, fault: 13, endpoints: 13 };
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
    head.push({ kind: 'stream', title: 'requests: ' + text(stream.name), stream, y, height: CHART + PAD, peak: peakOf(stream, run) });
    y += CHART + PAD;
  }
  let top = 0;
  for (const lane of run.lanes) {
    const kind = text(lane.kind);
    const item = { kind, title: TITLES[kind] + text(lane.name), lane, y: top, rows: [] };
    let inside = PAD;
    for (const row of lane.rows) {
      const thing = text(row.thing), height = HEIGHTS[thing];
      if (item.commands === undefined && kind === 'base' && lane.marks.length > 0 && thing !== 'life' && thing !== 'node') {
        item.commands = inside + 1; // between what the base is and what it has
        inside += COMMANDS;
      }
      item.rows.push({ thing, bars: row.bars, y: inside, height });
      inside += height + 1;
    }
    item.height = Math.max(inside + PAD, 20);
    top += item.height;
    lanes.push(item);
  }
  return { head, headHeight: y, lanes, lanesHeight: top };
}

function secondWidth(run) { return 4 + run.versions.length; }

function peakOf(stream, run) {
  const width = secondWidth(run);
  let peak = 1;
  for (let i = 0; i < stream.seconds.length; i += width) peak = Math.max(peak, stream.seconds[i + 2]);
  return peak;
}
