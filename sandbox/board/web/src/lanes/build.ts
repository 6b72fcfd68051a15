import type { BaseRow, LogEntry, ModuleOnBase, PodRow, StreamRow } from "../wire";
import type { History, Track } from "../state/history";
import type { Logbook } from "../state/logbook";
import { healthWord } from "../state/derive";
import { compareNames } from "./look";
import type { VersionNumbers } from "./look";
import { Rows } from "./model";
import type { Bar, Lane, Mark } from "./model";
import type { Column } from "./painter";

// Builder builds timeline rows (lanes) from a history. It rebuilds a lane only after new data.
export class Builder {
  private readonly made = new Map<string, { sign: string; lane: Lane }>();

  constructor(private readonly history: History, private readonly log: Logbook, private readonly versions: VersionNumbers) {}

  // base builds the lane of a base.
  base(name: string): Lane {
    const { tracks, podsOf } = this.history;
    const track = tracks.base.get(name);
    const pods = [...(podsOf.get(name) ?? [])].map((uid) => tracks.pod.get(uid)).filter((t) => t !== undefined);
    const log = this.log.of(name);
    const sign = `${this.history.begin} ${track?.times.length} ${track?.times.at(-1)} ${pods.reduce((n, p) => n + p.times.length, 0)} ${pods.length} ${log.length} ${log.at(-1)?.id}`;
    return this.keep(`base/${name}`, sign, () => {
      const rows = new Rows();
      if (track) {
        life(rows, name, track);
        modules(rows, name, track, this.versions);
      }
      for (const pod of pods.toSorted((a, b) => a.times[0]! - b.times[0]!)) onePod(rows, pod, this.versions, (p) => p.base === name);
      return { kind: "base", name, rows: rows.rows, marks: log.map(markOf).filter((m) => m !== null) };
    });
  }

  // heads builds the lanes of other objects: components, faults, Services, Pods without a base.
  heads(): Lane[] {
    const { tracks, begin } = this.history;
    const size = [tracks.component, tracks.fault, tracks.service].flatMap((m) => [...(m as Map<string, Track<object>>).values()]).reduce((n, t) => n + t.times.length, 0);
    const waiting = this.history.podsOf.get("");
    const key = `${begin} ${size} ${waiting?.size ?? 0} ${this.log.version}`;
    const names = [...tracks.component.keys()].toSorted(compareNames);
    const all = names.map((n) => this.keep(`component/${n}`, key, () => this.component(n)));
    const calm = all.filter((l) => l.rows.length === 1 && l.rows[0]!.bars.length === 1 && l.rows[0]!.bars[0]!.state === "running");
    const lanes = all.filter((l) => calm.length < 2 || !calm.includes(l));
    if (calm.length > 1) lanes.unshift({ kind: "component", name: "", rows: [{ thing: "process", bars: [{ ...calm[0]!.rows[0]!.bars[0]!, name: "", text: calm.map((l) => l.name).join(", ") }] }], marks: [] });
    if (tracks.fault.size > 0) lanes.push(this.keep("faults", key, () => this.faults()));
    for (const n of [...tracks.service.keys()].toSorted(compareNames)) lanes.push(this.keep(`service/${n}`, key, () => this.service(n)));
    const wait = this.keep("waiting", `${key} ${this.history.end}`, () => this.waiting());
    if (wait.rows.length > 0) lanes.push(wait);
    return lanes;
  }

  private keep(key: string, sign: string, make: () => Lane): Lane {
    const known = this.made.get(key);
    if (known?.sign === sign) return known.lane;
    const lane = make();
    this.made.set(key, { sign, lane });
    return lane;
  }

  private component(name: string): Lane {
    const rows = new Rows();
    spans(this.history.tracks.component.get(name)!, (row, from, last) =>
      rows.turn("process", last, bar(from, row.state, -1, name, row.message ?? "", ["component", name])));
    return { kind: "component", name, rows: rows.rows, marks: [] };
  }

  private faults(): Lane {
    const rows = new Rows();
    const list = [...this.history.tracks.fault].toSorted((a, b) => a[1].times[0]! - b[1].times[0]!);
    for (const [key, track] of list) {
      spans(track, (row, from, last) => last ?? rows.open("fault", bar(from, "set", -1, row.base || row.target, row.text, ["fault", key])));
    }
    const marks = this.log.entries.filter((e) => e.kind === "fault" && e.state === "fired").map(markOf).filter((m) => m !== null);
    return { kind: "faults", name: "", rows: rows.rows, marks };
  }

  private service(key: string): Lane {
    const rows = new Rows();
    spans(this.history.tracks.service.get(key)!, (row, from, last) => {
      const state = row.total === 0 ? "empty" : row.ready === 0 ? "none" : row.ready < row.total ? "some" : "all";
      return rows.turn("endpoints", last, bar(from, state, -1, row.name, `${row.ready}/${row.total}`, ["service", key]));
    });
    return { kind: "service", name: key, rows: rows.rows, marks: [] };
  }

  // waiting has the newest Pods that were without a base for at least a second.
  private waiting(): Lane {
    const rows = new Rows();
    const { tracks, podsOf, end } = this.history;
    const list = [...(podsOf.get("") ?? [])].slice(-500).map((uid) => tracks.pod.get(uid)).filter((t) => t !== undefined);
    for (const track of list) {
      const waits = track.rows.findIndex((r) => r !== null && !r.base);
      const until = track.times[waits + 1] ?? end;
      if (waits >= 0 && until - track.times[waits]! >= 1000 && rows.rows.length < 8) onePod(rows, track, this.versions, (p) => !p.base);
    }
    return { kind: "waiting", name: "", rows: rows.rows, marks: [] };
  }
}

// LONGEST is the longest time in milliseconds that one row of a stream describes. Rows arrive every second.
const LONGEST = 1500;

// rowDuring returns the row with the rates of a stream at a time: a row has the rates of the time before it.
export function rowDuring(track: Track<StreamRow>, time: number): StreamRow | null {
  const next = track.indexAt(time) + 1;
  return next < track.times.length && track.times[next]! - time <= LONGEST ? track.rows[next]! : track.at(time);
}

// columnsOf converts the rates of a stream to columns. Each column ends at the time of its row. Within the minimum
// distance, a later row is kept only if it has more lost requests.
export function columnsOf(track: Track<StreamRow>, from: number, to: number, least: number, versions: VersionNumbers): Column[] {
  const { times, rows } = track;
  const chosen: { to: number; row: StreamRow }[] = [];
  for (let i = Math.max(track.indexAt(from), 0); i < times.length && times[i]! <= to + LONGEST; i++) {
    const row = rows[i];
    if (!row || row.ended) continue;
    const last = chosen.at(-1);
    if (!last || times[i]! - last.to >= least) chosen.push({ to: times[i]!, row });
    else if (row.lostRate > last.row.lostRate) last.row = row;
  }
  return chosen.map(({ to, row }, i) => {
    const answers = Object.entries(row.versions ?? {}).map(([version, n]) => [versions.of(version), n] as const);
    const others = row.rate - row.lostRate - answers.reduce((sum, [, n]) => sum + n, 0);
    return { from: Math.max(chosen[i - 1]?.to ?? to - 1000, to - Math.max(LONGEST, 3 * least)), to, answers: others > 0 ? [...answers, [-1, others] as const] : answers, lost: row.lostRate };
  });
}

function bar(from: number, state: string, version: number, name: string, text: string, on: readonly [kind: string, key: string]): Bar {
  return { from, to: Infinity, state, version, name, text, on };
}

// spans iterates over a track. visit returns the open bar.
function spans<R>(track: Track<R>, visit: (row: R, from: number, last: Bar | undefined) => Bar): void {
  let last: Bar | undefined;
  for (let i = 0; i < track.times.length; i++) {
    const row = track.rows[i];
    const from = track.times[i]!;
    if (row) last = visit(row, from, last);
    else if (last) {
      last.to = from;
      last = undefined;
    }
  }
}

function life(rows: Rows, name: string, track: Track<BaseRow>): void {
  spans(track, (row, from, last) => {
    const state = row.state === "ready" && row.actuator === "DOWN" ? "unhealthy" : row.state;
    return rows.turn("life", last, bar(from, state, -1, name, [healthWord(row), row.reason].filter((s) => s).join("; "), ["base", name]));
  });
  let node: Bar | undefined;
  for (let i = 0; i < track.times.length; i++) {
    const state = track.rows[i]?.nodeState;
    const from = track.times[i]!;
    if (state) node = rows.turn("node", node, bar(from, state, -1, track.rows[i]!.node ?? name, "", ["base", name]));
    else if (node) {
      node.to = from;
      node = undefined;
    }
  }
}

function modules(rows: Rows, name: string, track: Track<BaseRow>, versions: VersionNumbers): void {
  const open = new Map<string, Bar>();
  let before: readonly ModuleOnBase[] | undefined;
  for (let i = 0; i < track.times.length; i++) {
    const now = track.rows[i]?.modules;
    const from = track.times[i]!;
    if (now === before) continue;
    before = now;
    const there = new Set(now?.map((m) => `${m.name}:${m.version}`));
    for (const [key, last] of open) {
      if (there.has(key)) continue;
      last.to = from;
      open.delete(key);
    }
    for (const m of now ?? []) {
      const key = `${m.name}:${m.version}`;
      open.set(key, rows.turn("module", open.get(key), bar(from, m.state, versions.of(m.version), key, "", ["base", name])));
    }
  }
}

function onePod(rows: Rows, track: Track<PodRow>, versions: VersionNumbers, here: (p: PodRow) => boolean): void {
  let last: Bar | undefined;
  for (let i = 0; i < track.times.length; i++) {
    const pod = track.rows[i];
    const from = track.times[i]!;
    if (pod && here(pod)) {
      const text = [pod.deleting ? `${pod.phase}, deleting` : pod.phase, pod.reason].filter((s) => s).join(", ");
      last = rows.turn("pod", last, bar(from, pod.state, versions.of(pod.modules[0]?.version ?? ""), pod.name, text, ["pod", pod.uid]));
    } else if (last) {
      last.to = from;
      last = undefined;
    }
  }
}

// routine reports whether an entry is a successful periodic query of a controller.
const routine = (e: LogEntry): boolean => !e.code && (e.name === "health" || (e.name ?? "").startsWith("query"));

function markOf(e: LogEntry): Mark | null {
  const mark = (kind: Mark["kind"], took: number): Mark => ({ from: e.time - took, to: e.time, kind, text: markText(e) });
  if (e.kind === "command") return routine(e) ? null : mark(e.code || e.bad ? "failure" : "command", e.took ?? 0);
  if (e.kind === "request") return mark("lost", 0);
  return e.kind === "fault" && e.state === "fired" ? mark("fired", 0) : null;
}

function markText(e: LogEntry): string {
  const module = [e.module, e.version].filter((s) => s).join(":");
  return [[e.name, module].filter((s) => s).join(" "), e.code, e.kind === "request" ? e.state : "", e.text].filter((s) => s).join(": ");
}
