import type { Thing } from "./look";

export type LaneKind = "component" | "faults" | "service" | "waiting" | "base";

// Bar is a state with its duration. to is Infinity while it lasts.
export interface Bar {
  from: number;
  to: number;
  state: string;
  // version is the colour number of a version; -1 = none.
  version: number;
  name: string;
  text: string;
  // on is the object that a click shows, as a kind and a key; unset in reports.
  on?: readonly [kind: string, key: string];
}

// BarRow is a row of bars that do not overlap, sorted by time.
export interface BarRow {
  thing: Thing;
  bars: Bar[];
}

export type MarkKind = "command" | "failure" | "lost" | "fired";

// Mark is an event; commands have a duration.
export interface Mark {
  from: number;
  to: number;
  kind: MarkKind;
  text: string;
}

// Lane is the timeline row of one base, component or Service.
export interface Lane {
  kind: LaneKind;
  name: string;
  rows: BarRow[];
  // marks, sorted by their end.
  marks: Mark[];
}

// Tracks places bars in the lowest free row of their object.
export class Rows {
  readonly rows: BarRow[] = [];

  // open places a new bar in a row.
  open(thing: Thing, bar: Bar): Bar {
    let at = 0;
    for (let i = 0; i < this.rows.length; i++) {
      const row = this.rows[i]!;
      if (row.thing !== thing) continue;
      if (row.bars.at(-1)!.to <= bar.from) {
        row.bars.push(bar);
        return bar;
      }
      at = i + 1;
    }
    this.rows.splice(at === 0 ? this.rows.length : at, 0, { thing, bars: [bar] });
    return bar;
  }

  // turn changes the state of the object with the given bar; without a bar it opens one.
  turn(thing: Thing, last: Bar | undefined, bar: Bar): Bar {
    if (!last) return this.open(thing, bar);
    if (last.state === bar.state && last.text === bar.text && last.version === bar.version && last.name === bar.name) return last;
    const row = this.rows.find((r) => r.thing === thing && r.bars.at(-1) === last);
    if (!row) return this.open(thing, bar);
    last.to = bar.from;
    row.bars.push(bar);
    return bar;
  }
}

// firstAfter returns the index of the first element that ends after a time. The elements are sorted by their
// ends.
export function firstAfter(list: readonly { to: number }[], time: number): number {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle]!.to > time) high = middle;
    else low = middle + 1;
  }
  return low;
}
