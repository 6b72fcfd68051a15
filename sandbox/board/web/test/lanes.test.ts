import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Builder, columnsOf, rowDuring } from "../src/lanes/build";
import { place, Stack, tickOf } from "../src/lanes/layout";
import { compareNames, VersionNumbers } from "../src/lanes/look";
import type { Thing } from "../src/lanes/look";
import { firstAfter } from "../src/lanes/model";
import type { Lane } from "../src/lanes/model";
import { History, Track } from "../src/state/history";
import { Logbook } from "../src/state/logbook";
import type { ComponentRow, StreamRow } from "../src/wire";
import { base, entry, module, pod, snapshot } from "./make";

const bars = (lane: Lane): string[] => lane.rows.map((r) => `${r.thing}: ${r.bars.map((b) => `${b.from}-${b.to} ${b.name} ${b.state}`).join("; ")}`);

test("the lane of a base has its life, its Node, its modules and its Pods", () => {
  const history = new History();
  const log = new Logbook();
  const one = [module("x", "1")];
  history.reset(snapshot(100, { base: { a: base("a", { nodeState: "Ready", node: "vnode.a", modules: one }) }, pod: { p: pod("p", { base: "a" }) } }));
  history.change({ seq: 101, time: 200, set: { base: { a: base("a", { nodeState: "Ready", node: "vnode.a", modules: [...one, module("x", "2", "RESOLVED")] }) }, pod: { q: pod("q", { base: "a", ready: false, phase: "Pending", state: "pending" }) } } });
  history.change({ seq: 102, time: 300, set: { base: { a: base("a", { state: "disconnected", nodeState: "NotReady", node: "vnode.a", modules: [module("x", "2")] }) }, pod: { q: pod("q", { base: "a" }) } }, del: { pod: ["p"] } });
  log.add([entry(1, { base: "a", name: "installBiz", module: "x", version: "2", took: 40, code: "User.DiskFull" }), entry(2, { base: "a", name: "queryAllBiz", took: 2 })]);
  const builder = new Builder(history, log, new VersionNumbers());
  const lane = builder.base("a");
  assert.deepEqual(bars(lane), [
    "life: 100-300 a ready; 300-Infinity a disconnected",
    "node: 100-300 vnode.a Ready; 300-Infinity vnode.a NotReady",
    "module: 100-300 x:1 ACTIVATED",
    "module: 200-300 x:2 RESOLVED; 300-Infinity x:2 ACTIVATED",
    "pod: 100-300 pod-p ready",
    "pod: 200-300 pod-q pending; 300-Infinity pod-q ready",
  ]);
  assert.deepEqual(lane.marks, [{ from: 960, to: 1000, kind: "failure", text: "installBiz x:2: User.DiskFull" }], "questions that were answered well are no marks");
  assert.equal(builder.base("a"), lane, "nothing new: the same lane");
  history.change({ seq: 103, time: 400, set: { base: { a: base("a") } } });
  assert.notEqual(builder.base("a"), lane);
});

test("components that only ran share a lane", () => {
  const history = new History();
  const component = (name: string, state: ComponentRow["state"] = "running"): ComponentRow => ({ name, state, since: 1 });
  history.reset(snapshot(100, { component: { a: component("a"), b: component("b"), c: component("c") }, fault: { "base-1/f": { id: "f", target: "base", base: "base-1", text: "crash", since: 1 } } }));
  history.change({ seq: 101, time: 200, set: { component: { c: component("c", "paused") } }, del: { fault: ["base-1/f"] } });
  assert.deepEqual(new Builder(history, new Logbook(), new VersionNumbers()).heads().map((l) => [l.kind, l.name, ...bars(l)]), [
    ["component", "", "process: 100-Infinity  running"],
    ["component", "c", "process: 100-200 c running; 200-Infinity c paused"],
    ["faults", "", "fault: 100-200 base-1 set"],
  ]);
});

test("only Pods that wait for a second at least have a lane", () => {
  const history = new History();
  history.reset(snapshot(1000, { pod: { p: pod("p"), q: pod("q") } }));
  history.change({ seq: 1001, time: 1500, set: { pod: { p: pod("p", { base: "a" }) } } });
  history.change({ seq: 1002, time: 3000, set: { pod: { q: pod("q", { base: "a" }) } } });
  assert.deepEqual(new Builder(history, new Logbook(), new VersionNumbers()).heads().map(bars), [["pod: 1000-3000 pod-q ready"]]);
});

test("bars are found by their ends", () => {
  const list = [{ to: 10 }, { to: 20 }, { to: Infinity }];
  assert.deepEqual([0, 10, 15, 20, 99].map((t) => firstAfter(list, t)), [0, 1, 1, 2, 2]);
});

test("lanes that nobody has looked at are guessed, the others known", () => {
  const stack = new Stack(() => 50);
  stack.set(["a", "b", "c"]);
  assert.deepEqual([stack.total, stack.top(2), stack.at(0), stack.at(49), stack.at(50), stack.at(149), stack.at(999)], [150, 100, 0, 0, 1, 2, 3]);
  assert.equal(stack.learn("a", 80), true);
  assert.equal(stack.learn("a", 80), false);
  assert.deepEqual([stack.total, stack.top(1), stack.at(79), stack.at(80)], [180, 80, 0, 1]);
});

test("a lane is as high as its rows", () => {
  const bar = { from: 0, to: 1, state: "", version: 0, name: "", text: "", on: ["base", "a"] as const };
  const lane: Lane = { kind: "base", name: "a", marks: [{ from: 0, to: 1, kind: "command", text: "" }], rows: (["life", "node", "module", "module", "pod"] as Thing[]).map((thing) => ({ thing, bars: [bar] })) };
  const whole = place(lane, 100);
  assert.deepEqual([whole.y, whole.height, whole.rows.map((r) => r.y), whole.labels.map((l) => l.label)], [100, 76, [5, 15, 30, 45, 60], ["rowLife", "rowCommands", "rowModules", "rowPods"]]);
  const small = place(lane, 0, true);
  assert.deepEqual([small.height, small.rows.map((r) => r.row.thing)], [26, ["life", "node", "module", "module"]]);
});

test("ticks have round distances", () => {
  assert.equal(tickOf(400 * 86400e3, 10), 40 * 86400e3);
  assert.deepEqual([[1000, 10], [60_000, 8], [120_000, 8], [3_600_000, 10]].map(([span, most]) => tickOf(span!, most!)), [100, 10_000, 15_000, 600_000]);
});

test("versions keep their colours, and everybody sees the same ones", () => {
  const n = new VersionNumbers();
  n.learn(["1.10.0", "1.2.0", ""]);
  n.learn(["1.0.0"]);
  assert.deepEqual([n.list, n.of("1.10.0"), n.of("")], [["1.2.0", "1.10.0", "1.0.0"], 1, -1]);
  n.sort(["1.1.0"]);
  assert.deepEqual(n.list, ["1.0.0", "1.1.0", "1.2.0", "1.10.0"]);
  assert.deepEqual(["base-10", "base-2", "base-1"].sort(compareNames), ["base-1", "base-2", "base-10"]);
});

const page = "../../scenario/report/page";

test("colours of states and versions are those of the page of a report", () => {
  const colours = (css: string, from: number): Record<string, string> => Object.fromEntries([...css.slice(from, css.indexOf("}", from)).matchAll(/--(\w+): (#[0-9a-f]{6})/g)].map((m) => [m[1], m[2]]));
  const ours = readFileSync("src/style.css", "utf8");
  const theirs = readFileSync(`${page}/style.css`, "utf8");
  const names = ["good", "bad", "warn", "none", "busy", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "back", "panel", "line", "text"];
  for (const [a, b] of [[ours.indexOf(":root {"), theirs.indexOf(":root {")], [ours.indexOf(":root[data-theme"), theirs.indexOf(":root {", theirs.indexOf("prefers-color-scheme"))]] as const) {
    const [mine, others] = [colours(ours, a), colours(theirs, b)];
    assert.deepEqual(names.map((n) => [n, mine[n]]), names.map((n) => [n, others[n]]));
  }
});

test("the column of a second ends at its row, at every zoom", () => {
  const track = new Track<StreamRow>();
  const row = (sent: number, lostRate: number, ended = 0): StreamRow => ({ group: "g", name: "s", sent, lost: 0, rate: 200, lostRate, ...(ended ? { ended, rate: 0, lostRate: 0 } : {}) });
  track.put(2000, row(200, 0));
  track.put(3000, row(400, 17));
  track.put(3899, row(580, 18));
  track.put(3900, row(580, 0, 3900));
  for (const least of [1, 30, 500]) {
    const columns = columnsOf(track, 1000, 4000, least, new VersionNumbers());
    assert.deepEqual(columns.map((c) => [c.from, c.to, c.lost]), [[1000, 2000, 0], [2000, 3000, 17], [3000, 3899, 18]]);
  }
  assert.deepEqual([100, 2500, 3500, 5000].map((time) => rowDuring(track, time)?.lostRate), [undefined, 17, 18, 0]);
});
