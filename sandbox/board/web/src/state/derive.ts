import type { Action, BaseRow, BoardRow, LogEntry, ModuleRef } from "../wire";
import { compareNames } from "../lanes/look";
import type { Track } from "./history";
import type { Place } from "./url";
import type { World } from "./world";

// Pure functions that derive the displayed values from the tables.

// LOSS_PAUSE is the time in milliseconds without lost requests after which the next loss of a stream is a new problem.
const LOSS_PAUSE = 10_000;

// nextProblem returns the time of the next problem after a time, or of the previous problem if by < 0. A problem is a
// bad entry. Consecutive lost requests of a stream are one problem, which begins with the first of them, and which includes
// the finding about them.
export function nextProblem(entries: readonly LogEntry[], time: number, by: 1 | -1): number | null {
  const lost = new Map<string, number>();
  const begins = entries.filter((e) => {
    if (e.code === "RequestsLost") return e.bad && ![...lost.values()].some((at) => e.time - at <= LOSS_PAUSE);
    if (!e.bad || e.kind !== "request") return e.bad;
    const before = lost.get(e.name ?? "") ?? -Infinity;
    lost.set(e.name ?? "", e.time);
    return e.time - before > LOSS_PAUSE;
  });
  return (by > 0 ? begins.find((e) => e.time > time) : begins.findLast((e) => e.time < time))?.time ?? null;
}

export interface Zone {
  name: string;
  bases: BaseRow[];
}

// matchesBase reports whether a base matches the filters in the URL.
export function matchesBase(b: BaseRow, f: Pick<Place, "q" | "zone" | "base" | "module" | "version" | "state">): boolean {
  if (f.zone && (b.zone ?? "") !== f.zone) return false;
  if (f.base && b.name !== f.base) return false;
  if (f.state && b.state !== f.state && !(f.state === "bad" && b.health !== "good")) return false;
  if ((f.module || f.version) && !b.modules.some((m) => (!f.module || m.name === f.module) && (!f.version || m.version === f.version))) return false;
  if (!f.q) return true;
  const q = f.q.toLowerCase();
  return [b.name, b.zone, b.baseName, b.node, b.ip, b.identity].some((s) => s?.toLowerCase().includes(q)) ||
    b.modules.some((m) => `${m.name}:${m.version}`.toLowerCase().includes(q));
}

// zonesOf groups bases by zone; zones and bases are sorted by name.
export function zonesOf(bases: Iterable<BaseRow>): Zone[] {
  const zones = new Map<string, BaseRow[]>();
  for (const b of bases) {
    const zone = zones.get(b.zone ?? "");
    if (zone) zone.push(b);
    else zones.set(b.zone ?? "", [b]);
  }
  return [...zones].map(([name, list]) => ({ name, bases: list.sort((a, b) => compareNames(a.name, b.name)) })).sort((a, b) => compareNames(a.name, b.name));
}

export interface VersionCount {
  version: string;
  active: number;
  installing: number;
  inactive: number;
  broken: number;
}

export interface ModuleCount {
  name: string;
  bases: number;
  broken: number;
  versions: VersionCount[];
}

// modulesOf counts the versions of modules on bases.
export function modulesOf(bases: Iterable<BaseRow>): ModuleCount[] {
  const modules = new Map<string, { bases: Set<string>; versions: Map<string, VersionCount> }>();
  for (const b of bases) {
    for (const m of b.modules) {
      let module = modules.get(m.name);
      if (!module) modules.set(m.name, (module = { bases: new Set(), versions: new Map() }));
      module.bases.add(b.name);
      let v = module.versions.get(m.version);
      if (!v) module.versions.set(m.version, (v = { version: m.version, active: 0, installing: 0, inactive: 0, broken: 0 }));
      if (m.state === "ACTIVATED") v.active++;
      else if (m.state === "RESOLVED") v.installing++;
      else if (m.state === "BROKEN") v.broken++;
      else v.inactive++;
    }
  }
  return [...modules].map(([name, m]) => {
    const versions = [...m.versions.values()].sort((a, b) => compareNames(a.version, b.version));
    return { name, bases: m.bases.size, broken: versions.reduce((n, v) => n + v.broken, 0), versions };
  }).sort((a, b) => compareNames(a.name, b.name));
}

// versionsOf returns all versions of bases and workloads.
export function* versionsOf(world: World): Iterable<string> {
  for (const b of world.base.values()) for (const m of b.modules) yield m.version;
  for (const w of world.workload.values()) for (const m of w.modules) yield m.version;
}

// healthWord returns the health that the actuator of a base reports, if it is not UP.
export const healthWord = (b: BaseRow): string => (b.actuator && b.actuator !== "UP" ? `health ${b.actuator}` : "");

export interface Trend {
  // share is the used part of the metaspace, 0 to 1; change is its change over the last five minutes.
  share: number;
  change: number;
}

const trends = new WeakMap<BaseRow, Trend>();
const TREND_TIME = 5 * 60e3;

// trendOf returns the metaspace trend of a base from its history; null = no limit.
export function trendOf(b: BaseRow, track: Track<BaseRow> | undefined): Trend | null {
  const max = b.metaspaceMax ?? 0;
  if (max <= 0) return null;
  const known = trends.get(b);
  if (known) return known;
  const used = b.metaspaceUsed ?? 0;
  const since = track?.times[track.rows.lastIndexOf(b)] ?? 0;
  const before = track?.at(since - TREND_TIME) ?? track?.rows[0];
  const trend = { share: used / max, change: before?.metaspaceUsed && before.identity === b.identity ? (used - before.metaspaceUsed) / max : 0 };
  trends.set(b, trend);
  return trend;
}

export interface Summary {
  bases: number;
  states: Map<string, number>;
  unwell: number;
  modules: number;
  broken: number;
  rolling: number;
  stuck: number;
  workloads: number;
  rate: number;
  lostRate: number;
  lost: number;
  faults: number;
  findings: number;
  down: string[];
}

// summaryOf returns the counts for the summary line.
export function summaryOf(world: World): Summary {
  const s: Summary = { bases: world.base.size, states: new Map(), unwell: 0, modules: 0, broken: 0, rolling: 0, stuck: 0, workloads: world.workload.size, rate: 0, lostRate: 0, lost: 0, faults: world.fault.size, findings: world.finding.size, down: [] };
  for (const b of world.base.values()) {
    s.states.set(b.state, (s.states.get(b.state) ?? 0) + 1);
    if (b.health !== "good") s.unwell++;
    for (const m of b.modules) {
      if (m.state === "ACTIVATED") s.modules++;
      if (m.state === "BROKEN") s.broken++;
    }
  }
  for (const w of world.workload.values()) {
    if (w.state === "stuck") s.stuck++;
    if (w.state === "rolling") s.rolling++;
  }
  for (const t of world.stream.values()) {
    s.lost += t.lost;
    if (t.ended) continue;
    s.rate += t.rate;
    s.lostRate += t.lostRate;
  }
  for (const c of world.component.values()) if (c.state !== "running") s.down.push(c.name);
  return s;
}

// spanOf returns the duration that a view shows by default: the whole of a finished run, or a duration before the
// displayed time.
export const spanOf = (board: BoardRow | undefined, recent: number): number => (board?.source === "report" && board.ended ? Math.max(board.ended - board.since, 1000) : recent);

// offeredOn reports whether an action applies to a row.
export const offeredOn = (a: Action, on: string, row: object): boolean =>
  a.on === on && Object.entries(a.when ?? {}).every(([field, values]) => values.includes(String((row as Record<string, unknown>)[field] ?? false)));

// refs formats modules as NAME:VERSION.
export const refs = (list: readonly ModuleRef[]): string => list.map((m) => (m.version ? `${m.name}:${m.version}` : m.name)).join(", ");

// matchesEntry reports whether a log entry matches the filters in the URL.
export function matchesEntry(e: LogEntry, f: Pick<Place, "q" | "base" | "module" | "version" | "kinds" | "bad">): boolean {
  if (f.bad && !e.bad) return false;
  if (f.kinds.length > 0 && !f.kinds.includes(e.kind)) return false;
  if (f.base && e.base !== f.base) return false;
  if (f.module && e.module !== f.module) return false;
  if (f.version && e.version !== f.version) return false;
  if (!f.q) return true;
  const q = f.q.toLowerCase();
  return [e.base, e.name, e.module, e.version, e.state, e.code, e.text, e.user].some((s) => s?.toLowerCase().includes(q));
}

export interface Density {
  all: number[];
  bad: number[];
  most: number;
}

// densityOf counts log entries by interval.
export function densityOf(entries: readonly LogEntry[], begin: number, end: number, parts: number): Density {
  const d: Density = { all: new Array(parts).fill(0), bad: new Array(parts).fill(0), most: 1 };
  const width = Math.max(end - begin, 1) / parts;
  for (const e of entries) {
    const i = Math.min(Math.floor((e.time - begin) / width), parts - 1);
    if (i < 0) continue;
    d.all[i]!++;
    if (e.bad) d.bad[i]!++;
    if (d.all[i]! > d.most) d.most = d.all[i]!;
  }
  return d;
}
