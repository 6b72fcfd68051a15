import type { Changes, Tables } from "../wire";

// Kind is the name of a table.
export type Kind = keyof Tables;

// Row is a row of a table.
export type Row<K extends Kind> = NonNullable<Tables[K]>[string];

// World is the state at a time. Its maps are immutable: a change creates a new map, so that views can compare
// maps by identity.
export type World = { readonly [K in Kind]: ReadonlyMap<string, Row<K>> };

// Kinds are the names of all tables.
export const kinds = [
  "board", "base", "pod", "workload", "revision", "service", "component", "fault", "stream", "step", "finding", "notice",
] as const satisfies readonly Kind[];

// emptyWorld is the initial state.
export function emptyWorld(): World {
  return Object.fromEntries(kinds.map((k) => [k, new Map()])) as unknown as World;
}

// share returns next with all parts that equal those of before taken from before, and before itself if nothing differs: rows
// of the past cost only what has changed.
export function share<T>(before: unknown, next: T): T {
  if (before === next || typeof next !== "object" || next === null) return next;
  if (Array.isArray(next)) {
    const old = Array.isArray(before) ? before : [];
    const list = next.map((item, i) => share(old[i], item));
    return (old.length === list.length && list.every((item, i) => item === old[i]) ? before : list) as T;
  }
  if (typeof before !== "object" || before === null) return next;
  const old = before as Record<string, unknown>;
  const row = next as Record<string, unknown>;
  for (const key in row) row[key] = share(old[key], row[key]);
  const same = Object.keys(row).length === Object.keys(old).length && Object.keys(row).every((key) => row[key] === old[key]);
  return same ? (before as T) : next;
}

// Op is a changed row; null = it was deleted.
export type Op = [kind: Kind, key: string, row: object | null];

// opsOf lists the rows of a message, in the order of tables.
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
