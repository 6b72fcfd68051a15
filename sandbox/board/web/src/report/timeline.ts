import { hitOf } from "../lanes/hit";
import { AXIS, CHART, GUTTER, PAD, place, STEP_HEIGHT } from "../lanes/layout";
import type { Placed } from "../lanes/layout";
import type { Thing } from "../lanes/look";
import { firstAfter } from "../lanes/model";
import type { LaneKind } from "../lanes/model";
import { COLUMN, Painter } from "../lanes/painter";
import type { Head } from "../lanes/painter";
import { showTip } from "../ui/tip";
import { moment, range } from "./data";
import type { ReportStream, Run } from "./data";

// LEGEND has each appearance once: an object, a state with this appearance, and its meaning.
const LEGEND: readonly (readonly [Thing, string, string])[] = [
  ["life", "ready", "process ready, Node Ready"], ["life", "starting", "starting"],
  ["life", "disconnected", "disconnected, Node not Ready"], ["life", "down", "process down or exited, no endpoints"],
  ["module", "ACTIVATED", "version serves, Pod Ready"], ["module", "RESOLVED", "being installed, Pod not Ready"], ["module", "DEACTIVATED", "deactivated"],
  ["module", "BROKEN", "health DOWN, broken, no endpoint ready, step failed, request lost"], ["pod", "pending", "Pod pending, step skipped"], ["pod", "terminating", "Pod terminating"],
  ["process", "running", "component running, step passed, all endpoints ready"], ["process", "paused", "component paused, fault set"], ["endpoints", "some", "some endpoints ready"],
];

const TITLES: Record<LaneKind, string> = { component: "", faults: "faults", service: "Service ", waiting: "Pods without a base", base: "" };
const WORDS: Record<string, string> = { rowLife: "process", rowModules: "modules", rowPods: "Pods", rowCommands: "commands" };
const THINGS: Record<string, string> = { life: "process", node: "Node", pod: "Pod" };

// SHORTEST is the minimum visible duration in milliseconds.
const SHORTEST = 0.2;

type ReportHead = Head & { stream?: ReportStream };

interface Layout {
  head: ReportHead[];
  headHeight: number;
  lanes: (Placed & { title: string })[];
  lanesHeight: number;
}

export function make<K extends keyof HTMLElementTagNameMap>(tag: K, className = "", content = ""): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (content) element.textContent = content;
  return element;
}

function layoutOf(run: Run): Layout {
  const head: ReportHead[] = [];
  let y = AXIS;
  if (run.steps.length > 0) {
    const height = (Math.max(...run.steps.map((s) => s.row)) + 1) * STEP_HEIGHT + PAD;
    head.push({ kind: "steps", title: "steps", y, height, steps: run.steps });
    y += height;
  }
  for (const stream of run.streams) {
    const notes = [{ text: `peak ${stream.peak}/s` }, { text: stream.route }];
    head.push({ kind: "stream", title: `requests: ${stream.name}`, y, height: CHART + PAD, notes, stream, lost: stream.lost, columns: (_from, _to, least) => stream.columns(least) });
    y += CHART + PAD;
  }
  let top = 0;
  const lanes = run.lanes.map((lane) => {
    const placed = { ...place(lane, top), title: TITLES[lane.kind] + lane.name };
    top += placed.height;
    return placed;
  });
  return { head, headHeight: y, lanes, lanesHeight: top };
}

// Timeline is the timeline of one run, with zoom, pan and tooltips.
export class Timeline {
  readonly layout: Layout;
  readonly whole: readonly [number, number];
  readonly scroll = make("div", "scroll");
  private readonly canvas = make("canvas");
  private readonly spacer = make("div");
  private readonly keys = make("span", "key");
  private readonly painter: Painter;
  private from: number;
  private to: number;
  private waiting = 0;
  private legendFor = "";
  private dragged: number | undefined;

  constructor(element: Element, private readonly run: Run) {
    this.layout = layoutOf(run);
    this.whole = [-run.length * 0.005 - 0.001, run.length * 1.01 + 0.001];
    [this.from, this.to] = this.whole;
    element.replaceChildren(this.tools(), this.scroll);
    this.scroll.append(this.canvas, this.spacer);
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", "timeline; the tables beneath have its steps, checks and requests");
    this.painter = new Painter(this.canvas);
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.scroll);
  }

  private tools(): HTMLElement {
    const tools = make("div", "tools");
    const buttons: [string, string, () => void][] = [["+", "zoom in", () => this.zoom(0.5)], ["−", "zoom out", () => this.zoom(2)], ["all", "the whole run", () => this.show(...this.whole)]];
    for (const [label, hint, act] of buttons) {
      const button = make("button", "", label);
      button.title = hint;
      button.addEventListener("click", act);
      tools.append(button);
    }
    tools.append(make("span", "", "drag to move, Ctrl+wheel or + − to zoom, double-click to zoom in, 0 for all"), this.keys);
    return tools;
  }

  // legend explains all colours of the current theme.
  private legend(): void {
    const box = (draw: (canvas: HTMLCanvasElement) => void): HTMLCanvasElement => {
      const canvas = make("canvas");
      canvas.width = 32;
      canvas.height = 20;
      draw(canvas);
      return canvas;
    };
    const { colours } = this.painter;
    this.keys.replaceChildren(
      ...this.run.versions.flatMap((version, n) => [box((b) => Painter.sample(b, colours, "module", "ACTIVATED", n)), make("span", "", version)]),
      ...LEGEND.flatMap(([thing, state, words]) => [box((b) => Painter.sample(b, colours, thing, state)), make("span", "", words)]),
      make("span", "", "lines: commands up to their answers, red if failed; yellow: a fault struck; red: a request lost"));
  }

  draw(): void {
    this.waiting ||= requestAnimationFrame(() => {
      this.waiting = 0;
      this.drawNow();
    });
  }

  // drawNow draws the visible part; if unfolded, for printing, everything.
  drawNow(unfold = false): void {
    const { headHeight, lanes, lanesHeight } = this.layout;
    const width = this.scroll.clientWidth;
    if (width < GUTTER + 50) return;
    const total = headHeight + lanesHeight;
    const height = unfold ? Math.min(total, 8000) : Math.min(total, Math.max(window.innerHeight * 0.78, headHeight + 120));
    const top = headHeight - (unfold ? 0 : this.scroll.scrollTop);
    this.spacer.style.height = `${unfold ? 0 : total - height}px`;
    this.painter.recolour(); // it may be light, dark or paper now
    this.painter.paint({
      width, height, from: this.from, to: this.to, begin: 0, end: this.run.length, cursor: null, head: this.layout.head, headHeight, zone: 0, ...(unfold ? { ratio: 1 } : {}),
      lanes: lanes.filter((p) => p.y + top < height && p.y + p.height + top > headHeight).map((p) => ({ ...p, y: p.y + top })),
      title: (p) => (p as Layout["lanes"][number]).title, words: (label) => WORDS[label] ?? label, clock: (time) => moment(time, this.to - this.from),
    });
    if (this.legendFor !== this.painter.colours.back) {
      this.legendFor = this.painter.colours.back;
      this.legend();
    }
  }

  // show shows the times from..to, limited to the run.
  show(from: number, to: number): void {
    const [first, last] = this.whole;
    const span = Math.min(Math.max(to - from, SHORTEST), last - first);
    this.from = Math.min(Math.max(from, first), last - span);
    this.to = this.from + span;
    this.draw();
  }

  zoom(factor: number, middle = (this.from + this.to) / 2): void {
    this.show(middle - (middle - this.from) * factor, middle + (this.to - middle) * factor);
  }

  private move(pixels: number): void {
    const by = pixels * this.pixel();
    this.show(this.from + by, this.to + by);
  }

  // pixel is the duration of one pixel; the pointer tolerance is three pixels.
  private pixel(): number {
    return (this.to - this.from) / (this.scroll.clientWidth - GUTTER);
  }

  private listen(): void {
    const { canvas } = this;
    this.scroll.addEventListener("scroll", () => {
      showTip("");
      this.draw();
    });
    canvas.addEventListener("wheel", (e) => {
      if (e.ctrlKey || e.metaKey) {
        e.preventDefault();
        this.zoom(Math.exp(e.deltaY * 0.004), this.painter.time(e.offsetX));
      } else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
        e.preventDefault();
        this.move(e.deltaX || e.deltaY);
      }
    }, { passive: false });
    canvas.addEventListener("dblclick", (e) => this.zoom(0.4, this.painter.time(e.offsetX)));
    canvas.addEventListener("pointerdown", (e) => {
      this.dragged = e.clientX;
      canvas.setPointerCapture(e.pointerId);
      showTip("");
    });
    const drop = (): void => void (this.dragged = undefined);
    canvas.addEventListener("pointerup", drop);
    canvas.addEventListener("pointercancel", drop);
    canvas.addEventListener("pointerleave", () => showTip(""));
    canvas.addEventListener("pointermove", (e) => {
      if (this.dragged === undefined) {
        showTip(this.at(e.offsetX, e.offsetY), e);
        return;
      }
      this.move(this.dragged - e.clientX);
      this.dragged = e.clientX;
    });
    const acts: Record<string, () => void> = {
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), "0": () => this.show(...this.whole), ArrowLeft: () => this.move(-80), ArrowRight: () => this.move(80),
    };
    canvas.addEventListener("keydown", (e) => {
      const act = acts[e.key];
      if (!act || e.ctrlKey || e.metaKey) return;
      e.preventDefault();
      act();
    });
  }

  // at describes the object at a position of the canvas; empty = none.
  at(x: number, y: number): string {
    const { head, headHeight, lanes } = this.layout;
    const find = <T extends { y: number; height: number }>(list: readonly T[], at: number): T | undefined => list.find((item) => at >= item.y && at < item.y + item.height);
    const time = this.painter.time(x);
    const near = 3 * this.pixel();
    if (y < headHeight) {
      const item = find(head, y);
      if (!item) return "";
      if (item.kind === "steps") return x < GUTTER ? item.title : this.stepAt(time, Math.floor((y - item.y) / STEP_HEIGHT), near);
      return x < GUTTER ? [item.title, ...item.notes.map((n) => n.text)].join("\n") : this.requestsAt(item.stream!, time, near);
    }
    const beneath = y - headHeight + this.scroll.scrollTop;
    const item = find(lanes, beneath);
    if (!item || x < GUTTER) return item?.title ?? "";
    const { thing, bar, marks } = hitOf(item, time, beneath - item.y, near);
    const lines = marks.map((m) => `${m.kind}: ${m.text}\n${range(m.from, m.to)}`);
    if (bar) lines.push(`${THINGS[thing!] ?? thing} ${bar.name}: ${bar.state}${bar.text ? `\n${bar.text}` : ""}\n${range(bar.from, bar.to)}`);
    return lines.join("\n");
  }

  private stepAt(time: number, row: number, near: number): string {
    const s = this.run.steps.find((s) => s.row === row && s.from - near <= time && time <= s.to + near);
    return s ? `${s.name}: ${s.state}\n${s.text}\n${range(s.from, s.to)}` : "";
  }

  private requestsAt(stream: ReportStream, time: number, near: number): string {
    const { lost } = stream;
    const lines: string[] = [];
    for (let i = firstAfter(lost, time - near); i < lost.length && lost[i]!.to <= time + near && lines.length < 6; i++) lines.push(lost[i]!.text);
    const b = stream.columns(COLUMN * this.pixel()).find((b) => b.from <= time && time < b.to);
    if (!b) return lines.join("\n");
    const sent = b.answers.reduce((n, [, more]) => n + more, b.lost);
    lines.push(`${range(b.from, b.to)}: ${sent} sent, ${b.lost} lost`);
    for (const [version, n] of b.answers) if (n && version >= 0) lines.push(`${this.run.versions[version]}: ${n}`);
    return lines.join("\n");
  }
}
