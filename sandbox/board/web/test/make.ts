import type { BaseRow, LogEntry, ModuleState, PodRow, Snapshot, Tables } from "../src/wire";

// What tests are about, as short as possible.

export const base = (name: string, more: Partial<BaseRow> = {}): BaseRow => ({ name, state: "ready", health: "good", modules: [], ...more });

export const module = (name: string, version: string, state: ModuleState = "ACTIVATED"): BaseRow["modules"][number] => ({ name, version, state, since: 1 });

export const pod = (uid: string, more: Partial<PodRow> = {}): PodRow => ({ namespace: "default", name: `pod-${uid}`, uid, modules: [{ name: "biz1", version: "1.0" }], phase: "Running", state: "ready", ready: true, created: 1, ...more });

export const entry = (id: number, more: Partial<LogEntry> = {}): LogEntry => ({ id, time: id * 1000, kind: "command", ...more });

export const snapshot = (time: number, tables: Tables, more: Partial<Snapshot> = {}): Snapshot => ({ seq: time, time, epoch: "e", tables, ...more });

// keys are what a table has.
export const keys = (table: ReadonlyMap<string, unknown>): string[] => [...table.keys()].sort();
