import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { clock, count, lasting, size } from "../src/format";
import { densityOf, matchesBase, matchesEntry, modulesOf, nextProblem, offeredOn, spanOf, summaryOf, trendOf, zonesOf } from "../src/state/derive";
import { History } from "../src/state/history";
import { home } from "../src/state/url";
import { commandsFor, quote, whyOf } from "../src/ui/commands";
import type { WorkloadRow } from "../src/wire";
import { base, entry, module, pod, snapshot } from "./make";

test("what is vendored is what npm has", () => {
  for (const [mine, theirs] of [["preact.mjs", "dist/preact.mjs"], ["hooks.mjs", "hooks/dist/hooks.mjs"], ["jsxRuntime.mjs", "jsx-runtime/dist/jsxRuntime.mjs"], ["LICENSE", "LICENSE"]]) {
    const text = (file: string): string => readFileSync(file, "utf8").replace(/\/\/# sourceMappingURL.*\n?/, "").trim();
    assert.equal(text(`../internal/bundle/preact/${mine}`), text(`node_modules/preact/${theirs}`), mine);
  }
});

test("the page stays small, and asks nobody else for anything", () => {
  const files = [".build/app.js", ".build/app.css", "static/index.html", "static/icon.svg"].map((f) => readFileSync(f));
  const bytes = files.reduce((n, f) => n + gzipSync(f).length, 0);
  assert.ok(bytes < 60_000, `the page has ${bytes} bytes when compressed`);
  const urls = files.flatMap((f) => f.toString().match(/\bhttps?:\/\/[^\s"'`)]+/g) ?? []).filter((u) => !u.startsWith("http://www.w3.org/"));
  assert.deepEqual(urls, []);
  assert.doesNotMatch(readFileSync("static/index.html", "utf8"), /<style|style=|<script(?![^>]*src=)| on\w+=/, "the policy forbids code and styles within the page");
});

test("bases are grouped by zone and chosen by filters", () => {
  const bases = [base("base-10", { zone: "b" }), base("base-2", { zone: "b", modules: [module("biz1", "1.0")] }), base("base-1", { zone: "a", state: "down", health: "bad" })];
  assert.deepEqual(zonesOf(bases).map((z) => [z.name, z.bases.map((b) => b.name)]), [["a", ["base-1"]], ["b", ["base-2", "base-10"]]]);
  const chosen = (f: object): string[] => bases.filter((b) => matchesBase(b, { ...home, ...f })).map((b) => b.name);
  assert.deepEqual(chosen({ zone: "b" }), ["base-10", "base-2"]);
  assert.deepEqual(chosen({ q: "BIZ1:1" }), ["base-2"]);
  assert.deepEqual(chosen({ module: "biz1", version: "1.0" }), ["base-2"]);
  assert.deepEqual(chosen({ module: "biz1", version: "2.0" }), []);
  assert.deepEqual(chosen({ state: "bad" }), ["base-1"]);
  assert.deepEqual(chosen({ state: "ready", zone: "b", q: "10" }), ["base-10"]);
});

test("versions of modules are counted by what they do", () => {
  assert.deepEqual(modulesOf([base("a", { modules: [module("x", "1"), module("x", "2", "RESOLVED")] }), base("b", { modules: [module("x", "2", "BROKEN")] })]), [
    { name: "x", bases: 2, broken: 1, versions: [{ version: "1", active: 1, installing: 0, inactive: 0, broken: 0 }, { version: "2", active: 0, installing: 1, inactive: 0, broken: 1 }] },
  ]);
});

test("metaspace is compared with five minutes ago, in the life of one process", () => {
  const h = new History();
  const row = (used: number, identity = "i"): ReturnType<typeof base> => base("a", { metaspaceMax: 100, metaspaceUsed: used, identity });
  h.reset(snapshot(1000, { base: { a: row(20) } }));
  h.change({ seq: 1001, time: 400_000, set: { base: { a: row(50) } } });
  const track = h.tracks.base.get("a")!;
  assert.deepEqual(trendOf(h.now.base.get("a")!, track), { share: 0.5, change: 0.3 });
  h.change({ seq: 1002, time: 500_000, set: { base: { a: row(10, "j") } } });
  assert.deepEqual(trendOf(h.now.base.get("a")!, track), { share: 0.1, change: 0 });
  assert.equal(trendOf(base("b"), undefined), null);
});

test("a world is summed up", () => {
  const h = new History();
  const w = { kind: "deployment", namespace: "d", name: "w", modules: [], desired: 2, updated: 1, ready: 2, available: 2, total: 2, state: "ready" as WorkloadRow["state"], strategy: "RollingUpdate" };
  const s = { group: "g", name: "s", sent: 9, lost: 2, rate: 5, lostRate: 1 };
  h.reset(snapshot(1, { base: { a: base("a", { modules: [module("x", "1")] }), b: base("b", { state: "down", health: "bad" }) }, workload: { r: { ...w, state: "rolling" as const }, s: { ...w, state: "stuck" as const } }, stream: { s, old: { ...s, ended: 5 } }, component: { broker: { name: "broker", state: "paused", since: 1 } } }));
  const { states, ...rest } = summaryOf(h.now);
  assert.deepEqual([...states], [["ready", 1], ["down", 1]]);
  assert.deepEqual(rest, { bases: 2, unwell: 1, modules: 1, broken: 0, rolling: 1, stuck: 1, workloads: 2, rate: 5, lostRate: 1, lost: 4, faults: 0, findings: 0, down: ["broker"] });
});

test("a finished run is shown as a whole", () => {
  const run = { source: "report" as const, title: "r", since: 1000, ended: 8000 };
  assert.deepEqual([spanOf(run, 120e3), spanOf({ ...run, source: "sandbox" }, 120e3), spanOf(undefined, 120e3)], [7000, 120e3, 120e3]);
});

test("an action is offered where it can be done", () => {
  const approve = { id: "workload.resume", on: "workload", title: "", when: { kind: ["deployment"], paused: ["true"] } };
  const pause = { ...approve, when: { kind: ["deployment"], paused: ["false"] } };
  const offered = (row: object): boolean[] => [approve, pause].map((a) => offeredOn(a, "workload", row));
  assert.deepEqual([{ kind: "deployment" }, { kind: "deployment", paused: true }, { kind: "statefulset", paused: true }].map(offered), [[false, true], [true, false], [false, false]]);
  assert.equal(offeredOn(pause, "base", { kind: "deployment" }), false);
});

test("entries of the log are chosen and counted", () => {
  const list = [entry(1, { base: "a", code: "User.DiskFull", bad: true }), entry(2, { kind: "event", text: "Pulled the Image" }), entry(3, { module: "x", version: "1" })];
  const chosen = (f: object): number[] => list.filter((e) => matchesEntry(e, { ...home, ...f })).map((e) => e.id);
  assert.deepEqual([chosen({}), chosen({ bad: true }), chosen({ kinds: ["event"] }), chosen({ q: "image" }), chosen({ q: "diskfull" }), chosen({ base: "a" }), chosen({ module: "x", version: "2" })], [[1, 2, 3], [1], [2], [2], [1], [1], []]);
  assert.deepEqual(densityOf(list, 0, 4000, 2), { all: [1, 2], bad: [1, 0], most: 2 });
});

test("commands can be pasted, whatever names there are", () => {
  const h = new History();
  h.reset(snapshot(1, { base: { "base-1": base("base-1", { node: "vnode.i" }) }, pod: { u: pod("u") } }));
  const koup = { source: "sandbox" as const, title: "koup", since: 1 };
  assert.deepEqual(commandsFor("base", "base-1", h.now, koup), ["koupsandbox why node/base-1", "koupsandbox base list -o wide", "koupsandbox fault list --base base-1", "kubectl describe node vnode.i"]);
  assert.deepEqual(commandsFor("fault", "base-1/f", h.now, { ...koup, title: "my own" }), ["koupsandbox fault list --base base-1 --name 'my own'", "koupsandbox fault clear --base base-1 f --name 'my own'"]);
  assert.deepEqual(commandsFor("base", "base-1", h.now, { ...koup, source: "cluster" }), ["kubectl describe node vnode.i"]);
  assert.equal(quote("a'b;c"), `'a'\\''b;c'`);
  assert.equal(whyOf("pod", "u", h.now)?.toString(), "kind=pod&namespace=default&name=pod-u");
  assert.equal(whyOf("pod", "gone", h.now), null);
});

test("numbers and times are as people read them", () => {
  const noon = new Date(2026, 0, 5, 12, 3, 4, 56).getTime();
  assert.deepEqual([clock(noon), clock(noon, 60e3), clock(noon - 4056, 60e3), clock(noon, 100)], ["12:03:04", "12:03:04", "12:03", "12:03:04.056"]);
  assert.deepEqual([0, 999, 4200, 42_000, 185_000, 7_800_000].map(lasting), ["0 ms", "999 ms", "4.2 s", "42 s", "3:05", "2:10:00"]);
  assert.deepEqual([size(2 ** 27), size(3 * 2 ** 30), count(1234.4), count(3.25)], ["128 MiB", "3.0 GiB", "1,234", "3.3"]);
});

test("consecutive lost requests of a stream and their finding are one problem", () => {
  const lost = (id: number, name: string) => entry(id, { kind: "request", name, bad: true });
  const log = [entry(1, { bad: true }), entry(2), lost(3, "a"), entry(4, { kind: "finding", code: "RequestsLost", bad: true }), lost(5, "a"), lost(6, "b"), lost(14, "a"),
    entry(20, { bad: true }), lost(30, "a"), entry(50, { kind: "finding", code: "RequestsLost", bad: true })];
  const times: number[] = [];
  for (let at = nextProblem(log, 0, 1); at !== null; at = nextProblem(log, at, 1)) times.push(at / 1000);
  assert.deepEqual(times, [1, 3, 6, 20, 30, 50]);
  const back: number[] = [];
  for (let at = nextProblem(log, 99_000, -1); at !== null; at = nextProblem(log, at, -1)) back.push(at / 1000);
  assert.deepEqual(back, times.toReversed());
});
