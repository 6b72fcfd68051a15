import type { Changes, Snapshot } from "../wire";
import { emptyWorld, kinds, opsOf, share } from "./world";
import type { Kind, Op, Row, World } from "./world";

// Track is the history of one row: its values with their start times, in ascending order.
export class Track<R> {
  readonly times: number[] = [];
  readonly rows: (R | null)[] = [];

  // put adds the value of a row from a time on. It reports whether the value has changed.
  put(time: number, row: R | null): boolean {
    const last = this.times.length - 1;
    if (last >= 0 && this.rows[last] === row) return false;
    if (last >= 0 && this.times[last]! >= time) { // no time passed: the older row was never to be seen
      this.rows[last] = row;
      return true;
    }
    this.times.push(time);
    this.rows.push(row);
    return true;
  }

  // indexAt returns the index of the value at a time, or -1.
  indexAt(time: number): number {
    let low = 0;
    let high = this.times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[middle]! <= time) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  // at returns the value at a time, or null.
  at(time: number): R | null {
    const n = this.times.length;
    if (n > 0 && this.times[n - 1]! <= time) return this.rows[n - 1]!;
    return this.rows[this.indexAt(time)] ?? null;
  }

  // forget removes values that ended before a time. It returns their number.
  forget(before: number): number {
    const first = this.indexAt(before);
    if (first <= 0) return 0;
    this.times.splice(0, first);
    this.rows.splice(0, first);
    return first;
  }
}

type Tracks = { [K in Kind]: Map<string, Track<Row<K>>> };

// History has the history of all rows and the current tables. A lookup of a time takes about the same time
// for all times.
export class History {
  // begin is the start of the history, end its latest known time.
  begin = 0;
  end = 0;
  // size is the number of stored values.
  size = 0;
  // first and last are the numbers of the first and last message in the history.
  first = 0;
  last = 0;
  readonly tracks = Object.fromEntries(kinds.map((k) => [k, new Map()])) as unknown as Tracks;
  // podsOf has the keys of all Pods that were ever on a base, or unscheduled ("").
  readonly podsOf = new Map<string, Set<string>>();
  now: World = emptyWorld();

  private shown: { time: number; world: World } | null = null;
  // asked are the tables of the last lookup, by kind.
  private readonly asked = new Map<Kind, ReadonlyMap<string, object>>();

  // reset replaces all tables by a snapshot.
  reset(s: Snapshot): void {
    const ops = opsOf({ set: s.tables });
    for (const kind of kinds) for (const key of this.now[kind].keys()) if (!s.tables[kind]?.[key]) ops.push([kind, key, null]);
    if (this.begin === 0) {
      this.begin = s.time;
      this.first = s.seq;
    }
    this.apply(s.seq, s.time, ops);
  }

  change(c: Changes): void {
    this.apply(c.seq, c.time, opsOf(c));
  }

  private apply(seq: number, time: number, ops: Op[]): void {
    const at = Math.max(time, this.end);
    const next = { ...this.now } as Record<Kind, Map<string, object>>;
    const fresh = new Set<Kind>();
    for (const [kind, key, given] of ops) {
      const row = given === null ? null : share(next[kind].get(key) ?? null, given);
      if (!this.write(kind, key, at, row)) continue;
      if (!fresh.has(kind)) {
        next[kind] = new Map(next[kind]);
        fresh.add(kind);
      }
      if (row === null) next[kind].delete(key);
      else next[kind].set(key, row);
    }
    this.now = next as unknown as World;
    this.end = at;
    this.last = seq;
    this.shown = null;
  }

  private write(kind: Kind, key: string, time: number, row: object | null): boolean {
    const tracks = this.tracks[kind] as Map<string, Track<object>>;
    let track = tracks.get(key);
    if (!track) {
      if (row === null) return false;
      tracks.set(key, (track = new Track()));
    }
    const before = track.times.length;
    if (!track.put(time, row)) return false;
    this.size += track.times.length - before;
    if (kind === "pod" && row) this.place(key, (row as Row<"pod">).base ?? "");
    return true;
  }

  private place(pod: string, base: string): void {
    const pods = this.podsOf.get(base);
    if (pods) pods.add(pod);
    else this.podsOf.set(base, new Set([pod]));
  }

  // at returns the state at a time. Tables are looked up when they are read, since no view needs all of them.
  // If a table is unchanged since the last lookup, the same object is returned.
  at(time: number): World {
    if (time >= this.end) return this.now;
    if (this.shown?.time === time) return this.shown.world;
    const world = {} as World;
    for (const kind of kinds) {
      let table: ReadonlyMap<string, object> | undefined;
      const get = (): ReadonlyMap<string, object> => {
        if (table) return table;
        table = this.tableAt(kind, time, this.asked.get(kind) ?? this.now[kind]);
        this.asked.set(kind, table);
        return table;
      };
      Object.defineProperty(world, kind, { get, enumerable: true });
    }
    this.shown = { time, world };
    return world;
  }

  private tableAt(kind: Kind, time: number, before: ReadonlyMap<string, object>): ReadonlyMap<string, object> {
    const table = new Map<string, object>();
    let same = true;
    for (const [key, track] of this.tracks[kind] as Map<string, Track<object>>) {
      const last = track.times.length - 1;
      if (track.times[0]! > time || (track.rows[last] === null && track.times[last]! <= time)) continue;
      const row = track.at(time);
      if (row === null) continue;
      table.set(key, row);
      if (same && before.get(key) !== row) same = false;
    }
    return same && table.size === before.size ? before : table;
  }

  // prepend inserts an older history before this one. The older one must not be used afterwards.
  prepend(older: History): void {
    const joint = this.begin;
    for (const kind of kinds) {
      const mine = this.tracks[kind] as Map<string, Track<object>>;
      for (const [key, past] of older.tracks[kind] as Map<string, Track<object>>) {
        const whole = new Track<object>();
        for (let i = 0; i < past.times.length && past.times[i]! < joint; i++) whole.put(past.times[i]!, past.rows[i]!);
        if (whole.times.length === 0) continue;
        const later = mine.get(key);
        if (!later || later.times[0]! > joint) whole.put(joint, null);
        let last = whole.rows.at(-1) ?? null;
        for (let i = 0; later && i < later.times.length; i++) {
          last = later.rows[i] ? share(last, later.rows[i]!) : null;
          whole.put(later.times[i]!, last);
        }
        mine.set(key, whole);
      }
    }
    for (const [base, pods] of older.podsOf) for (const pod of pods) this.place(pod, base);
    this.count();
    this.begin = older.begin;
    this.first = older.first;
    this.shown = null;
  }

  // forget removes values that ended before a time, and rows without values.
  forget(before: number): void {
    if (before <= this.begin) return;
    for (const kind of kinds) {
      const tracks = this.tracks[kind] as Map<string, Track<object>>;
      for (const [key, track] of tracks) {
        track.forget(before);
        if (track.times.length === 1 && track.rows[0] === null) tracks.delete(key);
      }
    }
    for (const [base, pods] of this.podsOf) {
      for (const pod of pods) if (!this.tracks.pod.has(pod)) pods.delete(pod);
      if (pods.size === 0) this.podsOf.delete(base);
    }
    this.begin = before;
    this.count();
  }

  private count(): void {
    this.size = 0;
    for (const kind of kinds) for (const track of (this.tracks[kind] as Map<string, Track<object>>).values()) this.size += track.times.length;
  }
}
