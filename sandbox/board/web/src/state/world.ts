import type { Changes, Tables } from "../wire";

// Kind is the name of a table.
export type Kind = keyof Tables;

// Row is a row of a table.
export type Row<K extends Kind> = NonNullable<Tables[K]>[string];

// World is everything that there is at a moment. Its maps are never changed: where something
// differs there is another map, so that what is drawn can be compared by identity.
export type World = { readonly [K in Kind]: ReadonlyMap<string, Row<K>> };

// Kinds are all tables.
export const kinds = [
  "board", "base", "pod", "workload", "revision", "service", "component", "fault", "stream", "step", "finding", "notice",
] as const satisfies readonly Kind[];

// emptyWorld is what there is before anything is known.
export function emptyWorld(): World {
  return Object.fromEntries(kinds.map((k) => [k, new Map()])) as unknown as World;
}

const MOST_STRINGS = 50_000;
let strings = new Map<string, string>();

// intern returns one and the same string for equal ones, so that a long history holds each once.
export function intern(s: string): string {
  const known = strings.get(s);
  if (known !== undefined) return known;
  if (strings.size >= MOST_STRINGS) strings = new Map();
  strings.set(s, s);
  return s;
}

// OWN are fields that no two rows have in common.
const OWN = new Set(["uid", "name", "identity", "node", "ip"]);

// adopt makes equal strings of a new row the same.
function adopt(row: Record<string, unknown>): void {
  for (const key in row) {
    const value = row[key];
    if (typeof value === "string") {
      if (!OWN.has(key)) row[key] = intern(value);
    } else if (Array.isArray(value)) {
      for (const item of value) if (typeof item === "object" && item !== null) for (const k in item) if (typeof item[k] === "string") item[k] = intern(item[k]);
    }
  }
}

// share returns next with all parts that equal those of before taken from before, and before itself
// if nothing differs: rows of the past cost only what has changed.
export function share<T>(before: unknown, next: T): T {
  if (before === next) return before as T;
  if (typeof next === "string") return intern(next) as T;
  if (typeof next !== "object" || next === null) return next;
  if (Array.isArray(next)) return shareList(Array.isArray(before) ? before : [], next) as T;
  const row = next as Record<string, unknown>;
  if (typeof before !== "object" || before === null) {
    adopt(row);
    return next;
  }
  const old = before as Record<string, unknown>;
  let same = true;
  let fields = 0;
  for (const key in row) {
    fields++;
    const value = share(old[key], row[key]);
    row[key] = value;
    if (same && value !== old[key]) same = false;
  }
  if (same) for (const _ in old) fields--;
  return same && fields === 0 ? (before as T) : next;
}

// shareList looks for an element's like where it was, and one place beside, since most lists change
// by one element.
function shareList(before: unknown[], next: unknown[]): unknown[] {
  let same = before.length === next.length;
  for (let i = 0; i < next.length; i++) {
    let value = share(before[i], next[i]);
    if (value !== before[i] && typeof value === "object") {
      const earlier = i > 0 ? share(before[i - 1], value) : value;
      value = i > 0 && earlier === before[i - 1] ? earlier : share(before[i + 1], value);
    }
    next[i] = value;
    if (value !== before[i]) same = false;
  }
  return same ? before : next;
}

// Op is one row that was written; null = it is gone.
export type Op = [kind: Kind, key: string, row: object | null];

// opsOf lists what changes say, in the order of tables.
export function opsOf(c: Pick<Changes, "set" | "del">): Op[] {
  const ops: Op[] = [];
  for (const kind of kinds) {
    const rows = c.set?.[kind];
    if (rows) for (const key in rows) ops.push([kind, key, rows[key] as object]);
    const gone = c.del?.[kind];
    if (gone) for (const key of gone) ops.push([kind, key, null]);
  }
  return ops;
}
