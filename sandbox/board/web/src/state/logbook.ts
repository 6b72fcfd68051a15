import type { LogEntry } from "../wire";

// Logbook has the log entries, sorted by ID.
export class Logbook {
  entries: LogEntry[] = [];
  // version increases with each change.
  version = 0;
  private readonly byBase = new Map<string, LogEntry[]>();

  private chosen: { key: string; of: LogEntry[]; seen: number; list: LogEntry[] } = { key: "", of: [], seen: 0, list: [] };

  constructor(private readonly most = 500_000) {}

  // add appends newer entries, and ignores entries that it already has.
  add(list: readonly LogEntry[]): void {
    const last = this.entries.at(-1)?.id ?? -1;
    for (const entry of list) {
      if (entry.id <= last) continue;
      this.entries.push(entry);
      this.index(entry);
    }
    this.version++;
    if (this.entries.length > this.most * 1.1) this.rebuild(this.entries.slice(-this.most));
  }

  // prepend inserts older entries, and ignores entries that it already has.
  prepend(list: readonly LogEntry[]): void {
    const first = this.entries[0]?.id ?? Infinity;
    const older = list.filter((e) => e.id < first).slice(-Math.max(this.most - this.entries.length, 0));
    if (older.length > 0) this.rebuild([...older, ...this.entries]);
  }

  clear(): void {
    this.rebuild([]);
  }

  // of returns the entries of a base.
  of(base: string): readonly LogEntry[] {
    return this.byBase.get(base) ?? [];
  }

  // choose returns the entries that match a filter. If key is unchanged, it tests only new entries.
  choose(key: string, matches: (e: LogEntry) => boolean): readonly LogEntry[] {
    const { entries } = this;
    if (this.chosen.key !== key || this.chosen.of !== entries) this.chosen = { key, of: entries, seen: 0, list: [] };
    const c = this.chosen;
    for (; c.seen < entries.length; c.seen++) if (matches(entries[c.seen]!)) c.list.push(entries[c.seen]!);
    return c.list;
  }

  // until returns the number of entries until a time, of all entries or of a list.
  until(time: number, list: readonly LogEntry[] = this.entries): number {
    let low = 0;
    let high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle]!.time <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  private rebuild(entries: LogEntry[]): void {
    this.entries = entries;
    this.byBase.clear();
    entries.forEach((e) => this.index(e));
    this.version++;
  }

  private index(entry: LogEntry): void {
    if (!entry.base) return;
    const list = this.byBase.get(entry.base);
    if (list) list.push(entry);
    else this.byBase.set(entry.base, [entry]);
  }
}
