import type { StepRow, StreamRow } from "../wire";
import type { Track } from "../state/history";
import { AXIS, CHART, COMMANDS, GUTTER, PAD, STEP_HEIGHT, tickOf } from "./layout";
import type { Placed, PlacedRow } from "./layout";
import { coloursOf, lookOf, MARKS } from "./look";
import type { Colours, Look, Thing, VersionNumbers } from "./look";
import { firstAfter } from "./model";
import type { Bar, Mark, MarkKind } from "./model";

const FONT = "11px system-ui, sans-serif";
const SMALL = "9px system-ui, sans-serif";

// Head is what stays above the lanes.
export type Head =
  | { kind: "steps"; title: string; y: number; height: number; steps: readonly StepRow[] }
  | { kind: "stream"; title: string; y: number; height: number; key: string; track: Track<StreamRow> };

// Scene is everything that is to be drawn.
export interface Scene {
  width: number;
  height: number;
  from: number;
  to: number;
  // begin and end bound what is known; cursor is the moment that is shown, null = the end.
  begin: number;
  end: number;
  cursor: number | null;
  head: readonly Head[];
  headHeight: number;
  lanes: readonly Placed[];
  versions: VersionNumbers;
  title(p: Placed): string;
  words(label: string): string;
  clock(time: number, tick: number): string;
}

// Painter draws a scene onto a canvas.
export class Painter {
  private readonly g: CanvasRenderingContext2D;
  private fits = new Map<string, string>();
  private scene!: Scene;
  private c!: Colours;

  constructor(private readonly canvas: HTMLCanvasElement) {
    this.g = canvas.getContext("2d", { alpha: false })!;
    this.recolour();
  }

  // recolour reads the colours anew: the page is light or dark now.
  recolour(): void {
    this.c = coloursOf(this.canvas);
  }

  paint(scene: Scene): void {
    const { g, canvas } = this;
    const ratio = window.devicePixelRatio || 1;
    const { width, height, headHeight } = (this.scene = scene);
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = `${height}px`;
    }
    if (this.fits.size > 5000) this.fits.clear();
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.fillStyle = this.c.back;
    g.fillRect(0, 0, width, height);
    g.font = FONT;
    g.textBaseline = "middle";
    this.unknown(height);
    this.grid(height);
    this.inside(0, headHeight, () => scene.head.forEach((h) => (h.kind === "steps" ? this.steps(h) : this.stream(h))));
    this.axis();
    this.inside(headHeight, height, () => scene.lanes.forEach((p) => this.lane(p)));
    g.fillStyle = this.c.line;
    g.fillRect(0, headHeight - 1, width, 1);
    g.fillRect(GUTTER - 1, 0, 1, height);
    this.cursor(height);
  }

  x(time: number): number {
    return GUTTER + ((time - this.scene.from) / (this.scene.to - this.scene.from)) * (this.scene.width - GUTTER);
  }

  time(x: number): number {
    return this.scene.from + ((x - GUTTER) / (this.scene.width - GUTTER)) * (this.scene.to - this.scene.from);
  }

  private inside(top: number, bottom: number, draw: () => void): void {
    this.g.save();
    this.g.beginPath();
    this.g.rect(0, top, this.scene.width, bottom - top);
    this.g.clip();
    draw();
    this.g.restore();
  }

  // unknown shades what was before anybody looked, and what is still to come.
  private unknown(height: number): void {
    const begin = Math.min(this.x(this.scene.begin), this.scene.width);
    const end = Math.max(this.x(this.scene.end), GUTTER);
    this.g.fillStyle = this.c.panel;
    if (begin > GUTTER) this.g.fillRect(GUTTER, AXIS, begin - GUTTER, height);
    if (end < this.scene.width) this.g.fillRect(end, AXIS, this.scene.width - end, height);
  }

  private ticks(visit: (time: number, x: number, tick: number) => void): void {
    const { from, to, width } = this.scene;
    const tick = tickOf(to - from, Math.max((width - GUTTER) / 90, 2));
    const zone = new Date(from).getTimezoneOffset() * 60e3; // so that hours stand at full hours
    for (let t = Math.ceil((from - zone) / tick) * tick + zone; t <= to; t += tick) visit(t, this.x(t), tick);
  }

  private grid(height: number): void {
    this.g.globalAlpha = 0.45;
    this.g.fillStyle = this.c.line;
    this.ticks((_, x) => this.g.fillRect(Math.round(x), AXIS - 4, 1, height));
    this.g.globalAlpha = 1;
  }

  private axis(): void {
    this.g.fillStyle = this.c.weak;
    this.g.textAlign = "left";
    this.ticks((t, x, tick) => {
      if (x < this.scene.width - 50) this.g.fillText(this.scene.clock(t, tick), x + 3, 10);
    });
  }

  private cursor(height: number): void {
    if (this.scene.cursor === null) return;
    const x = Math.round(this.x(this.scene.cursor));
    if (x < GUTTER || x > this.scene.width) return;
    this.g.fillStyle = this.c.accent;
    this.g.fillRect(x - 1, 0, 2, height);
    this.g.beginPath();
    this.g.moveTo(x - 6, 0);
    this.g.lineTo(x + 6, 0);
    this.g.lineTo(x, 8);
    this.g.fill();
  }

  private title(label: string, y: number, colour: string, room = GUTTER - 16): void {
    this.g.fillStyle = colour;
    this.g.textAlign = "left";
    this.g.fillText(this.fit(label, room), 8, y);
  }

  // fit cuts a label to its room, and ends what it cuts in "…".
  private fit(label: string, room: number): string {
    const key = `${Math.floor(room)} ${label}`;
    let text = this.fits.get(key);
    if (text === undefined) this.fits.set(key, (text = this.cut(label, room)));
    return text;
  }

  private cut(label: string, room: number): string {
    const { g } = this;
    if (g.measureText(label).width <= room) return label;
    let least = 0;
    let most = label.length - 1;
    while (least < most) {
      const middle = (least + most + 1) >> 1;
      if (g.measureText(`${label.slice(0, middle)}…`).width <= room) least = middle;
      else most = middle - 1;
    }
    return least > 0 ? `${label.slice(0, least)}…` : "";
  }

  // sample draws the look of a state for a legend.
  static sample(canvas: HTMLCanvasElement, c: Colours, thing: Thing, state: string): void {
    const g = canvas.getContext("2d")!;
    g.setTransform(2, 0, 0, 2, 0, 0);
    g.clearRect(0, 0, 16, 10);
    fill(g, 0, 0, 16, 10, lookOf(c, thing, state, 0));
  }

  // bar draws a box, one pixel wide at least, with its label if there is room.
  private bar(x1: number, x2: number, y: number, height: number, look: Look, label: string): void {
    const { g } = this;
    const left = Math.max(x1, GUTTER);
    const right = Math.min(Math.max(x2, x1 + 1), this.scene.width);
    if (right <= left) return;
    fill(g, left, y, right - left, height, look);
    if (x1 >= GUTTER) g.fillRect(left, y, 1, height);
    if (label && height >= 12 && right - left > 34) {
      const cut = this.fit(label, right - left - 8);
      if (look[1] === "hatched") {
        g.fillStyle = this.c.back;
        g.fillRect(left + 2, y + 1, g.measureText(cut).width + 4, height - 2);
      }
      g.fillStyle = look[1] === "solid" ? this.c.back : this.c.text;
      g.textAlign = "left";
      g.fillText(cut, left + 4, y + height / 2 + 0.5);
    }
  }

  // until is where a bar ends: what lasts ends where nothing more is known.
  until(bar: { to: number }): number {
    return Math.min(bar.to, this.scene.end);
  }

  private steps(head: Head & { kind: "steps" }): void {
    this.title(head.title, head.y + STEP_HEIGHT / 2, this.c.text);
    for (const s of head.steps) {
      const to = s.to || this.scene.end;
      this.bar(this.x(s.from), this.x(to), head.y, STEP_HEIGHT - 2, lookOf(this.c, "step", s.state, -1), s.name);
    }
  }

  // stream draws the rate as stacked columns, by the version that answered, and what was lost on top.
  private stream(head: Head & { kind: "stream" }): void {
    const { g, c } = this;
    const floor = head.y + CHART - 6;
    const room = CHART - 14;
    const { times, rows } = head.track;
    const first = Math.max(head.track.indexAt(this.scene.from), 0);
    const columns: { x: number; row: StreamRow }[] = [];
    let peak = 1;
    for (let i = first; i < times.length && times[i]! <= this.scene.to; i++) {
      const row = rows[i];
      const x = this.x(times[i]!);
      if (!row || x < GUTTER - 8) continue;
      peak = Math.max(peak, row.rate);
      const last = columns.at(-1);
      if (!last || x - last.x >= 3) columns.push({ x, row });
      else if (row.lostRate > last.row.lostRate) last.row = row;
    }
    const row = head.track.at(this.scene.cursor ?? this.scene.end);
    this.title(head.title, head.y + 12, c.text);
    this.title(row ? `${Math.round(row.rate)}/s` : "–", head.y + 28, c.weak);
    if (row?.lost) this.title(this.scene.words("lost").replace("{n}", String(row.lost)), head.y + 44, c.bad);
    columns.forEach(({ x, row }, i) => {
      const left = Math.max(x, GUTTER);
      const width = Math.max(Math.min((columns[i + 1]?.x ?? x + 8) - x - 1, 12), 1);
      let y = floor;
      const stack = (n: number, colour: string): void => {
        if (n <= 0) return;
        const height = Math.max((n / peak) * room, 1);
        g.fillStyle = colour;
        g.fillRect(left, (y -= height), width, height);
      };
      let known = 0;
      for (const [version, rate] of Object.entries(row.versions ?? {})) {
        known += rate;
        stack(rate, c.version(this.scene.versions.of(version)));
      }
      stack(row.rate - row.lostRate - known, c.none);
      stack(row.lostRate, c.bad);
      if (row.lostRate > 0) g.fillRect(left, floor + 1, width, 4);
    });
    g.fillStyle = c.line;
    g.fillRect(GUTTER, floor, this.scene.width, 1);
  }

  private lane(p: Placed): void {
    const { g, c } = this;
    const { lane, y } = p;
    g.fillStyle = c.line;
    g.globalAlpha = 0.6;
    g.fillRect(0, y + p.height - 1, this.scene.width, 1);
    g.globalAlpha = 1;
    this.title(this.scene.title(p), y + Math.min(p.height, 24) / 2, c.text, p.labels.length ? GUTTER - 72 : undefined);
    g.fillStyle = c.weak;
    g.textAlign = "right";
    g.font = SMALL;
    for (const { label, y: beneath } of p.labels) g.fillText(this.scene.words(label), GUTTER - 6, y + beneath);
    g.font = FONT;
    for (const row of p.rows) this.row(row, y + row.y);
    if (p.commands !== null) this.commands(lane.marks, y + p.commands);
    this.marks(lane.marks, "fired", y + PAD, p.height - 2 * PAD);
    this.marks(lane.marks, "failure", y + PAD, p.height - 2 * PAD);
    this.marks(lane.marks, "lost", y + (p.commands ?? PAD) - 1, COMMANDS - 1);
  }

  // row draws bars; where many share a pixel, the first stands for all of them, so that a row costs
  // no more than its pixels.
  private row({ row, height }: PlacedRow, y: number): void {
    const { bars } = row;
    for (let i = firstAfter(bars, this.scene.from); i < bars.length && bars[i]!.from <= this.scene.to;) {
      const b = bars[i]!;
      const x1 = this.x(b.from);
      const x2 = this.x(this.until(b));
      this.bar(x1, x2, y, height, lookOf(this.c, row.thing, b.state, b.version), labelOf(row.thing, b));
      i = x2 - x1 >= 1 ? i + 1 : Math.max(i + 1, firstAfter(bars, this.time(x1 + 1)));
    }
  }

  // commands draws each from its question to its answer.
  private commands(marks: readonly Mark[], y: number): void {
    const { g } = this;
    let last = -9;
    for (let i = firstAfter(marks, this.scene.from); i < marks.length && marks[i]!.from <= this.scene.to; i++) {
      const m = marks[i]!;
      const x2 = this.x(m.to);
      const x1 = Math.max(this.x(m.from), GUTTER);
      if ((m.kind !== "command" && m.kind !== "failure") || x2 - last < 1) continue;
      last = x2;
      g.fillStyle = this.c[m.kind === "command" ? "weak" : "bad"];
      g.fillRect(x1, y + 2, Math.max(x2 - x1, 1), 1);
      g.fillRect(x2 - 2, y, 2, 5);
    }
  }

  private marks(marks: readonly Mark[], kind: keyof typeof MARKS & MarkKind, y: number, height: number): void {
    const [colour, width] = MARKS[kind];
    this.g.fillStyle = this.c[colour];
    let last = -9;
    for (let i = firstAfter(marks, this.scene.from); i < marks.length && marks[i]!.to <= this.scene.to; i++) {
      if (marks[i]!.kind !== kind) continue;
      const x = this.x(marks[i]!.to);
      if (x - last < 1) continue;
      last = x;
      this.g.fillRect(x - width / 2, y, width, height);
    }
  }
}

const hatches = new Map<string, CanvasPattern | null>();

function hatch(g: CanvasRenderingContext2D, colour: string): CanvasPattern | null {
  let pattern = hatches.get(colour);
  if (pattern !== undefined) return pattern;
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const p = tile.getContext("2d")!;
  p.strokeStyle = colour;
  p.lineWidth = 1.6;
  p.beginPath();
  for (const i of [-6, 0, 6]) {
    p.moveTo(i, 6);
    p.lineTo(i + 6, 0);
  }
  p.stroke();
  hatches.set(colour, (pattern = g.createPattern(tile, "repeat")));
  return pattern;
}

// fill draws a look into a box.
function fill(g: CanvasRenderingContext2D, left: number, y: number, width: number, height: number, [colour, way]: Look): void {
  g.fillStyle = colour;
  if (way === "solid") {
    g.fillRect(left, y, width, height);
    return;
  }
  g.globalAlpha = way === "pale" ? 0.28 : 0.14;
  g.fillRect(left, y, width, height);
  g.globalAlpha = 1;
  if (way === "hatched" && width > 3) {
    g.fillStyle = hatch(g, colour) ?? colour;
    g.fillRect(left, y, width, height);
  }
  g.fillStyle = colour;
  if (height > 8 && width > 3) {
    g.fillRect(left, y, width, 1);
    g.fillRect(left, y + height - 1, width, 1);
  }
}

// labelOf is what stands in a bar.
function labelOf(thing: string, b: Bar): string {
  if (thing === "module" || thing === "pod") return b.name;
  if (thing === "process") return [b.state, b.text].filter((s) => s).join(": ");
  return thing === "fault" ? `${b.name}: ${b.text}` : b.text || b.name;
}
