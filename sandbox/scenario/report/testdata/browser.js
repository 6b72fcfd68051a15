// A browser that is just enough for the page's script: it opens a page, draws each
// timeline, zooms, asks what stands at a place, and prints what came of it.
const fs = require('fs');
const vm = require('vm');

const page = fs.readFileSync(process.argv[2], 'utf8');
const between = (before, after) => page.split(before)[1].split(after)[0];
const dataText = between('<script type="application/json" id="data">', '</script>');
const script = between('<script>', '</script>');

let boxes = 0, texts = [];
const context = new Proxy({}, {
  get: (t, name) => {
    if (name === 'fillRect') return (x, y, w, h) => { boxes++; if (![x, y, w, h].every(Number.isFinite)) throw new Error(`fillRect(${x}, ${y}, ${w}, ${h})`); };
    if (name === 'fillText') return (s) => texts.push(String(s));
    if (name === 'measureText') return (s) => ({ width: 6 * s.length });
    return name in t ? t[name] : () => ({});
  },
  set: (t, name, value) => { t[name] = value; return true; },
});

class Element {
  constructor(tag) { this.tag = tag; this.children = []; this.style = {}; this.dataset = {}; this.listeners = {}; this.clientWidth = 1368; this.scrollTop = 0; }
  append(...list) { this.children.push(...list); }
  replaceChildren(...list) { this.children = list; }
  addEventListener(name, f) { (this.listeners[name] ||= []).push(f); }
  setAttribute() {}
  setPointerCapture() {}
  scrollIntoView() {}
  getContext() { return context; }
  getBoundingClientRect() { return { width: 100, height: 40 }; }
  querySelector() { return this.timeline; }
}

const runs = [...page.matchAll(/<details class="run" id="run-(\d+)"/g)].map((m) => {
  const details = new Element('details');
  details.open = true;
  if (page.includes(`class="timeline" data-run="${m[1]}"`)) { details.timeline = new Element('div'); details.timeline.dataset.run = m[1]; }
  return details;
});
const document = {
  getElementById: (id) => (id === 'data' ? { textContent: dataText } : null), createElement: (tag) => new Element(tag),
  querySelectorAll: () => runs, body: new Element('body'),
};
const window = { innerHeight: 900, innerWidth: 1400, devicePixelRatio: 1, addEventListener() {} };
const sandbox = {
  document, window, location: { hash: '' }, console, ResizeObserver: class { observe() {} }, requestAnimationFrame: (f) => { f(); return 0; },
  getComputedStyle: () => ({ getPropertyValue: (name) => name }), matchMedia: () => new Element('media'), out: [], probe: null,
};
// The script keeps what it has to itself: the probe is put inside.
sandbox.probe = (timelines, unnamed) => {
  for (const t of timelines) {
    const result = { titles: [], whole: 0, zoomed: 0, printed: 0, places: {} };
    const count = (draw) => { boxes = 0; texts = []; draw(); return boxes; };
    result.whole = count(() => t.drawNow());
    result.texts = [...texts];
    result.legend = t.keys.children.map((c) => c.textContent || '').filter((s) => s);
    result.unnamed = unnamed(t.painter.colours);
    result.titles = [...t.layout.head, ...t.layout.lanes].map((i) => i.title);
    for (const part of JSON.parse(process.argv[3] || '[]')) { // a title, a time, pixels beneath the top of its lane
      const head = t.layout.head.find((i) => i.title === part[0]), lane = t.layout.lanes.find((i) => i.title === part[0]);
      if (!head && !lane) continue;
      const y = head ? head.y + part[2] : t.layout.headHeight + lane.y + part[2];
      result.places[part.join(' ')] = t.at(t.painter.x(part[1] / 1e3), y);
    }
    t.zoom(0.1);
    result.zoomed = count(() => t.drawNow());
    t.show(...t.whole);
    result.printed = count(() => t.drawNow(true));
    sandbox.out.push(result);
  }
};
// unnamed are the looks that the legend does not show.
const looks = `const unnamed = (c) => {
  const shown = new Set((typeof LEGEND === "undefined" ? [] : LEGEND).map(([thing, state]) => String(lookOf(c, thing, state, 0))));
  const states = { life: ['ready', 'connected', 'starting', 'disconnected', 'down'], node: ['Ready', 'NotReady', 'Unknown'], module: ['ACTIVATED', 'RESOLVED', 'DEACTIVATED', 'BROKEN'],
    pod: ['ready', 'notReady', 'pending', 'terminating'], process: ['running', 'paused', 'exited'], fault: ['set'], endpoints: ['all', 'some', 'none', 'empty'], step: ['passed', 'failed', 'errored', 'skipped'] };
  return Object.entries(states).flatMap(([thing, list]) => list.filter((s) => !shown.has(String(lookOf(c, thing, s, 0)))).map((s) => thing + ' ' + s));
};
`;
const end = script.lastIndexOf('})();');
vm.runInNewContext(script.slice(0, end) + looks + 'probe(timelines.values(), unnamed);\n' + script.slice(end), sandbox);
console.log(JSON.stringify(sandbox.out));
