import type { Thing } from "./look";
import type { BarRow, Lane } from "./model";

// Positions in pixels. Steps and streams are below the axis and do not scroll; lanes scroll.
export const GUTTER = 168;
export const AXIS = 22;
export const CHART = 54;
export const STEP_HEIGHT = 16;
export const COMMANDS = 10;
export const PAD = 5;
export const HEIGHTS: Record<Thing, number> = { life: 9, node: 4, module: 14, pod: 10, process: 13, fault: 13, endpoints: 13, step: 14 };

// DENSE are heights for many bases. Pods are omitted, and colours show the state of modules.
const DENSE: Partial<Record<Thing, number>> = { life: 5, node: 2, module: 5, pod: 0 };

export interface PlacedRow {
  row: BarRow;
  y: number;
  height: number;
}

export interface Placed {
  lane: Lane;
  y: number;
  height: number;
  rows: PlacedRow[];
  // commands is the position of commands; null = not shown.
  commands: number | null;
  labels: { label: "rowLife" | "rowModules" | "rowPods" | "rowCommands"; y: number }[];
}

const LABELS = { life: "rowLife", module: "rowModules", pod: "rowPods" } as const;

// place assigns positions to the rows of a lane.
export function place(lane: Lane, y: number, dense = false): Placed {
  if (dense && lane.kind === "base") return placeDense(lane, y);
  const placed: Placed = { lane, y, height: 0, rows: [], commands: null, labels: [] };
  let inside = PAD;
  for (const row of lane.rows) {
    const height = HEIGHTS[row.thing];
    if (placed.commands === null && lane.kind === "base" && lane.marks.length > 0 && row.thing !== "life" && row.thing !== "node") {
      placed.commands = inside + 2; // between what the base is and what it has
      placed.labels.push({ label: "rowCommands", y: inside + COMMANDS / 2 });
      inside += COMMANDS;
    }
    const label = lane.kind === "base" ? LABELS[row.thing as keyof typeof LABELS] : undefined;
    if (label && !placed.rows.some((r) => r.row.thing === row.thing)) placed.labels.push({ label, y: inside + height / 2 });
    placed.rows.push({ row, y: inside, height });
    inside += height + 1;
  }
  placed.height = Math.max(inside + PAD, 20);
  return placed;
}

function placeDense(lane: Lane, y: number): Placed {
  const placed: Placed = { lane, y, height: 0, rows: [], commands: null, labels: [] };
  let inside = 3;
  for (const row of lane.rows) {
    const height = DENSE[row.thing] ?? HEIGHTS[row.thing];
    if (height === 0) continue;
    placed.rows.push({ row, y: inside, height });
    inside += height + (row.thing === "life" ? 0 : 1);
  }
  placed.height = Math.max(inside + 3, 18);
  return placed;
}

// Stack has the positions of lanes. The heights of lanes that were never visible are estimated.
export class Stack {
  private readonly heights = new Map<string, number>();
  private tops: number[] = [];
  private names: readonly string[] = [];
  private stale = true;

  constructor(private readonly guess: (name: string) => number) {}

  set(names: readonly string[]): void {
    this.stale ||= names !== this.names;
    this.names = names;
  }

  // learn records the height of a lane. It reports whether the height has changed.
  learn(name: string, height: number): boolean {
    if (this.heights.get(name) === height) return false;
    this.heights.set(name, height);
    this.stale = true;
    return true;
  }

  get total(): number {
    this.refresh();
    return this.tops.at(-1) ?? 0;
  }

  top(i: number): number {
    this.refresh();
    return this.tops[i] ?? 0;
  }

  // at returns the index of the lane at a height.
  at(y: number): number {
    this.refresh();
    let low = 0;
    let high = this.names.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle + 1]! <= y) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  private refresh(): void {
    if (!this.stale) return;
    this.tops = [0];
    let y = 0;
    for (const name of this.names) this.tops.push((y += this.heights.get(name) ?? this.guess(name)));
    this.stale = false;
  }
}

// TICKS are the possible distances of axis ticks, in milliseconds.
const TICKS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 7200e3, 14400e3, 43200e3, 86400e3];

// tickOf returns the distance for the number of ticks that fit.
export function tickOf(span: number, most: number): number {
  const day = TICKS.at(-1)!;
  return TICKS.find((t) => span / t <= most) ?? Math.ceil(span / most / day) * day;
}
