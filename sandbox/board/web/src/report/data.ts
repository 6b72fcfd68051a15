import type { Bar, BarRow, Lane, LaneKind, Mark, MarkKind } from "../lanes/model";
import type { Thing } from "../lanes/look";
import type { Column, Step } from "../lanes/painter";

// The data of a report. In the page, numbers are in flat arrays, and texts are indices of a list; see
// sandbox/scenario/report/view.go. Times there are in microseconds from the start of the run, here in
// milliseconds.

interface RunView {
  length: number;
  versions: number[];
  steps: number[];
  streams: { name: number; route: number; peak: number; width: number; bins: number[]; lost: number[] }[];
  lanes: { kind: number; name: number; rows: { thing: number; bars: number[] }[]; marks: number[] }[];
}

export interface View {
  texts: string[];
  runs: RunView[];
}

export interface ReportStep extends Step {
  to: number;
  row: number;
  text: string;
}

export interface ReportStream {
  name: string;
  route: string;
  peak: number;
  lost: Mark[];
  columns(least: number): Column[];
}

export interface Run {
  length: number;
  versions: string[];
  steps: ReportStep[];
  streams: ReportStream[];
  lanes: Lane[];
}

const ms = (micros: number): number => micros / 1e3;

// records splits a flat array into records of a width.
function records<R>(flat: readonly number[], width: number, make: (...numbers: number[]) => R): R[] {
  const list: R[] = [];
  for (let i = 0; i < flat.length; i += width) list.push(make(...flat.slice(i, i + width)));
  return list;
}

// runOf returns the run with a number.
export function runOf({ texts, runs }: View, n: number): Run {
  const run = runs[n]!;
  const text = (id: number): string => texts[id]!;
  const barOf = (from: number, to: number, state: number, version: number, name: number, more: number): Bar => ({ from: ms(from), to: ms(to), state: text(state), version, name: text(name), text: text(more) });
  const markOf = (from: number, to: number, kind: number, words: number): Mark => ({ from: ms(from), to: ms(to), kind: text(kind) as MarkKind, text: text(words) });
  return {
    length: ms(run.length),
    versions: run.versions.map(text),
    steps: records(run.steps, 6, (from, to, row, state, name, more) => ({ from: ms(from!), to: ms(to!), row: row!, state: text(state!), name: text(name!), text: text(more!) })),
    streams: run.streams.map((s) => ({
      name: text(s.name), route: text(s.route), peak: s.peak,
      lost: records(s.lost, 3, (at, result, more) => ({ from: ms(at!), to: ms(at!), kind: "lost" as const, text: `lost: ${text(result!)} at ${moment(ms(at!), 0)}; ${text(more!)}` })),
      columns: (least) => columnsOf(s.bins, s.width, run.versions.length, least),
    })),
    lanes: run.lanes.map((l) => ({
      kind: text(l.kind) as LaneKind, name: text(l.name), marks: records(l.marks, 4, markOf as (...n: number[]) => Mark),
      rows: l.rows.map((r): BarRow => ({ thing: text(r.thing) as Thing, bars: records(r.bars, 6, barOf as (...n: number[]) => Bar) })),
    })),
  };
}

// columnsOf combines bins to columns of at least the given duration. Requests without a version that are not
// lost have the number -1.
function columnsOf(bins: readonly number[], width: number, versions: number, least: number): Column[] {
  const span = Math.max(Math.ceil((least * 1e3) / width), 1) * width;
  const columns: { from: number; to: number; lost: number; answers: [number, number][] }[] = [];
  for (let i = 0; i < bins.length; i += 3 + versions) {
    const [at, sent, lost] = [bins[i]!, bins[i + 1]!, bins[i + 2]!];
    const from = bins[0]! + Math.floor((at - bins[0]!) / span) * span;
    let last = columns.at(-1);
    if (last?.from !== ms(from)) {
      last = { from: ms(from), to: ms(from + span), lost: 0, answers: Array.from({ length: versions + 1 }, (_, v) => [v < versions ? v : -1, 0]) };
      columns.push(last);
    }
    last!.lost += lost;
    let others = sent - lost;
    for (let v = 0; v < versions; v++) {
      last!.answers[v]![1] += bins[i + 3 + v]!;
      others -= bins[i + 3 + v]!;
    }
    last!.answers[versions]![1] += others;
  }
  return columns;
}

// moment formats a time of the run with a precision that fits the zoom.
export function moment(time: number, span: number): string {
  const digits = span > 20e3 ? 0 : span > 2e3 ? 1 : span > 200 ? 2 : 3;
  return `${(time / 1e3).toFixed(digits)} s`;
}

function duration(time: number): string {
  if (time >= 1e3) return `${(time / 1e3).toFixed(2)} s`;
  return `${time.toFixed(time >= 1 ? 0 : 1)} ms`;
}

export const range = (from: number, to: number): string => (to > from ? `${moment(from, 0)} to ${moment(to, 0)}, ${duration(to - from)}` : moment(from, 0));
