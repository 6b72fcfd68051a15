import type { Placed } from "./layout";
import type { Thing } from "./look";
import { firstAfter } from "./model";
import type { Bar, Mark } from "./model";

// MARKS is the maximum number of marks that are reported for one position.
const MARKS = 6;

// Hit is the object at a position of a lane.
export interface Hit {
  thing: Thing | undefined;
  bar: Bar | undefined;
  marks: Mark[];
}

// hitOf returns the object at a height below the top of a lane. near is the tolerance in time. A mark is hit
// at its end; in the row of commands it is hit during its whole duration.
export function hitOf(p: Placed, time: number, y: number, near: number): Hit {
  const row = p.rows.find((r) => y >= r.y && y <= r.y + r.height);
  const bars = row?.row.bars ?? [];
  const bar = bars[firstAfter(bars, time - near / 2)];
  const found: Mark[] = [];
  const { marks } = p.lane;
  for (let i = firstAfter(marks, time - near); i < marks.length && found.length < MARKS; i++) {
    const m = marks[i]!;
    if (m.to <= time + near || (row === undefined && m.from <= time + near)) found.push(m);
    else if (m.from > time + near) break;
  }
  return { thing: row?.row.thing, bar: bar && bar.from <= time + near / 2 ? bar : undefined, marks: found };
}
