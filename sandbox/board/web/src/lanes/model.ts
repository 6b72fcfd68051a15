import type { Thing } from "./look";

export type LaneKind = "component" | "faults" | "service" | "waiting" | "base";

// Bar is a state that lasts. To is Infinity while it does.
export interface Bar {
  from: number;
  to: number;
  state: string;
  // version is the number of a version's colour; -1 = none.
  version: number;
  name: string;
  text: string;
  // on is what a click shows: a kind of row and its key; a report shows nothing.
  on?: readonly [kind: string, key: string];
}

// BarRow is a row of bars that do not overlap, in the order of time.
export interface BarRow {
  thing: Thing;
  bars: Bar[];
}

export type MarkKind = "command" | "failure" | "lost" | "fired";

// Mark is something that happened; commands take time.
export interface Mark {
  from: number;
  to: number;
  kind: MarkKind;
  text: string;
}

// Lane is what is drawn of one base, component or Service.
export interface Lane {
  kind: LaneKind;
  name: string;
  rows: BarRow[];
  // marks in the order in which they ended.
  marks: Mark[];
}

// Tracks puts bars into the lowest row of their thing that is free.
export class Rows {
  readonly rows: BarRow[] = [];

  // open puts a bar that begins into a row.
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

  // turn goes on with another state of the thing whose bar is given; without one it opens a bar.
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

// firstAfter returns the place of the first thing that ends after a time. Things are in the order of
// their ends.
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
