import { AXIS, CHART, COMMANDS, GUTTER, PAD, STEP_HEIGHT, tickOf } from "./layout";
import type { Placed, PlacedRow } from "./layout";
import { coloursOf, lookOf, MARKS } from "./look";
import type { Colours, Look, Thing } from "./look";
import { firstAfter } from "./model";
import type { Bar, Mark, MarkKind } from "./model";

const FONT = "11px system-ui, sans-serif";
const SMALL = "9px system-ui, sans-serif";

// COLUMN is the minimum width of a stream column in pixels.
export const COLUMN = 4;

// Step is a step of a run; without an end it is running. Overlapping steps are drawn in separate rows.
export interface Step {
  from: number;
  to?: number;
  row?: number;
  state: string;
  name: string;
}

// Column has the responses by version number and the lost requests of one interval.
export interface Column {
  from: number;
  to: number;
  answers: readonly (readonly [version: number, n: number])[];
  lost: number;
}

// Stream is the requests over time. columns returns the columns of a time range that last at least the given
// duration. Without individual lost requests, columns with lost requests are marked.
export interface Stream {
  notes: readonly { text: string; bad?: boolean }[];
  columns(from: number, to: number, least: number): readonly Column[];
  lost?: readonly { to: number }[];
}

// Head is the fixed part above the lanes.
export type Head = { title: string; y: number; height: number } & ({ kind: "steps"; steps: readonly Step[] } | ({ kind: "stream" } & Stream));

// Scene is the input of the painter.
export interface Scene {
  width: number;
  height: number;
  from: number;
  to: number;
  // begin and end limit the known time; cursor is the displayed time, null = the end.
  begin: number;
  end: number;
  cursor: number | null;
  head: readonly Head[];
  headHeight: number;
  lanes: readonly Placed[];
  // zone is the offset of the browser's time zone from UTC, so that ticks are at full hours; 0 = relative
  // times.
  zone: number;
  // ratio of canvas pixels to page pixels; default: the ratio of the screen.
  ratio?: number;
  title(p: Placed): string;
  words(label: string): string;
  clock(time: number, tick: number): string;
}

// Painter draws a scene on a canvas.
export class Painter {
  private readonly g: CanvasRenderingContext2D;
  private fits = new Map<string, string>();
  private scene!: Scene;
  colours!: Colours;

  constructor(private readonly canvas: HTMLCanvasElement) {
    this.g = canvas.getContext("2d", { alpha: false })!;
    this.recolour();
  }

  // recolour reads the colours again after a change of the theme.
  recolour(): void {
    this.colours = coloursOf(this.canvas);
  }

  paint(scene: Scene): void {
    const { g, canvas } = this;
    const ratio = scene.ratio ?? (window.devicePixelRatio || 1);
    const { width, height, headHeight } = (this.scene = scene);
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = `${height}px`;
    }
    if (this.fits.size > 5000) this.fits.clear();
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.fillStyle = this.colours.back;
    g.fillRect(0, 0, width, height);
    g.font = FONT;
    g.textBaseline = "middle";
    this.unknown(height);
    this.grid(height);
    this.inside(0, headHeight, () => scene.head.forEach((h) => (h.kind === "steps" ? this.steps(h) : this.stream(h))));
    this.axis();
    this.inside(headHeight, height, () => scene.lanes.forEach((p) => this.lane(p)));
    g.fillStyle = this.colours.line;
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

  // unknown shades the time before the history and the future.
  private unknown(height: number): void {
    const begin = Math.min(this.x(this.scene.begin), this.scene.width);
    const end = Math.max(this.x(this.scene.end), GUTTER);
    this.g.fillStyle = this.colours.panel;
    if (begin > GUTTER) this.g.fillRect(GUTTER, AXIS, begin - GUTTER, height);
    if (end < this.scene.width) this.g.fillRect(end, AXIS, this.scene.width - end, height);
  }

  private ticks(visit: (time: number, x: number, tick: number) => void): void {
    const { from, to, width, zone } = this.scene;
    const tick = tickOf(to - from, Math.max((width - GUTTER) / 90, 2));
    for (let t = Math.ceil((from - zone) / tick) * tick + zone; t <= to; t += tick) visit(t, this.x(t), tick);
  }

  private grid(height: number): void {
    this.g.globalAlpha = 0.45;
    this.g.fillStyle = this.colours.line;
    this.ticks((_, x) => this.g.fillRect(Math.round(x), AXIS - 4, 1, height));
    this.g.globalAlpha = 1;
  }

  private axis(): void {
    this.g.fillStyle = this.colours.weak;
    this.g.textAlign = "left";
    this.ticks((t, x, tick) => {
      if (x < this.scene.width - 50) this.g.fillText(this.scene.clock(t, tick), x + 3, 10);
    });
  }

  private cursor(height: number): void {
    if (this.scene.cursor === null) return;
    const x = Math.round(this.x(this.scene.cursor));
    if (x < GUTTER || x > this.scene.width) return;
    this.g.fillStyle = this.colours.accent;
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

  // fit shortens a label to its space, with "…" at the end.
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

  // sample draws the appearance of a state for the legend.
  static sample(canvas: HTMLCanvasElement, c: Colours, thing: Thing, state: string, version = 0): void {
    const g = canvas.getContext("2d")!;
    g.setTransform(2, 0, 0, 2, 0, 0);
    g.clearRect(0, 0, 16, 10);
    fill(g, 0, 0, 16, 10, lookOf(c, thing, state, version));
  }

  // bar draws a box of at least one pixel, with its label if it fits.
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
        g.fillStyle = this.colours.back;
        g.fillRect(left + 2, y + 1, g.measureText(cut).width + 4, height - 2);
      }
      g.fillStyle = look[1] === "solid" ? this.colours.back : this.colours.text;
      g.textAlign = "left";
      g.fillText(cut, left + 4, y + height / 2 + 0.5);
    }
  }

  // until returns the displayed end of a bar: the end of the known time if it is open.
  until(bar: { to: number }): number {
    return Math.min(bar.to, this.scene.end);
  }

  private steps(head: Head & { kind: "steps" }): void {
    this.title(head.title, head.y + STEP_HEIGHT / 2, this.colours.text);
    for (const s of head.steps) {
      this.bar(this.x(s.from), this.x(s.to || this.scene.end), head.y + (s.row ?? 0) * STEP_HEIGHT, STEP_HEIGHT - 2, lookOf(this.colours, "step", s.state, -1), s.name);
    }
  }

  // stream draws stacked columns by version, with lost requests on top, and a line for lost requests below.
  private stream(head: Head & { kind: "stream" }): void {
    const { g, colours: c } = this;
    const { from, to, width } = this.scene;
    const floor = head.y + CHART - 8;
    const room = CHART - 14;
    this.title(head.title, head.y + 12, c.text);
    head.notes.forEach((n, i) => this.title(n.text, head.y + 28 + 16 * i, n.bad ? c.bad : c.weak));
    const columns = head.columns(from, to, COLUMN * (this.time(GUTTER + 1) - from)).filter((b) => b.to > from && b.from < to);
    const sum = (b: Column): number => b.answers.reduce((n, [, more]) => n + more, b.lost);
    const peak = columns.reduce((n, b) => Math.max(n, sum(b)), 1);
    for (const b of columns) {
      const left = Math.max(this.x(b.from), GUTTER);
      const right = Math.max(this.x(this.until(b)) - 1, left + 1);
      let y = floor;
      const stack = (n: number, colour: string): void => {
        if (n <= 0) return;
        const height = Math.max((n / peak) * room, 1);
        g.fillStyle = colour;
        g.fillRect(left, (y -= height), right - left, height);
      };
      for (const [version, n] of b.answers) stack(n, c.version(version));
      stack(b.lost, c.bad);
    }
    g.fillStyle = c.line;
    g.fillRect(GUTTER, floor, width, 1);
    g.fillStyle = c.bad;
    const lost = head.lost ?? columns.filter((b) => b.lost > 0).map((b) => ({ to: b.from }));
    let last = -1;
    for (let i = firstAfter(lost, from); i < lost.length && lost[i]!.to <= to; i++) {
      const x = Math.floor(this.x(lost[i]!.to));
      if (x !== last && x >= GUTTER) g.fillRect((last = x), floor + 1, 1, 7);
    }
  }

  private lane(p: Placed): void {
    const { g, colours: c } = this;
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

  // row draws bars. If several bars share a pixel, only the first one is drawn, so that the cost is limited
  // by the width.
  private row({ row, height }: PlacedRow, y: number): void {
    const { bars } = row;
    for (let i = firstAfter(bars, this.scene.from); i < bars.length && bars[i]!.from <= this.scene.to;) {
      const b = bars[i]!;
      const x1 = this.x(b.from);
      const x2 = this.x(this.until(b));
      this.bar(x1, x2, y, height, lookOf(this.colours, row.thing, b.state, b.version), labelOf(row.thing, b));
      i = x2 - x1 >= 1 ? i + 1 : Math.max(i + 1, firstAfter(bars, this.time(x1 + 1)));
    }
  }

  // commands draws each command from its request to its response.
  private commands(marks: readonly Mark[], y: number): void {
    const { g } = this;
    let last = -9;
    for (let i = firstAfter(marks, this.scene.from); i < marks.length && marks[i]!.from <= this.scene.to; i++) {
      const m = marks[i]!;
      const x2 = this.x(m.to);
      const x1 = Math.max(this.x(m.from), GUTTER);
      if ((m.kind !== "command" && m.kind !== "failure") || x2 - last < 1) continue;
      last = x2;
      g.fillStyle = this.colours[m.kind === "command" ? "weak" : "bad"];
      g.fillRect(x1, y + 2, Math.max(x2 - x1, 1), 1);
      g.fillRect(x2 - 2, y, 2, 5);
    }
  }

  private marks(marks: readonly Mark[], kind: keyof typeof MARKS & MarkKind, y: number, height: number): void {
    const [colour, width] = MARKS[kind];
    this.g.fillStyle = this.colours[colour];
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

// fill draws a box in the appearance of a state.
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

// labelOf returns the label of a bar.
function labelOf(thing: string, b: Bar): string {
  if (thing === "module" || thing === "pod") return b.name;
  if (thing === "process") return [b.state, b.text].filter((s) => s).join(": ");
  return thing === "fault" ? `${b.name}: ${b.text}` : b.text || b.name;
}
