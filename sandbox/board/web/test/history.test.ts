import assert from "node:assert/strict";
import { test } from "node:test";
import { History, Track } from "../src/state/history";
import { share } from "../src/state/world";
import { base, keys, module, pod, snapshot } from "./make";

test("a track tells what a row was at any time", () => {
  const track = new Track<string>();
  assert.equal(track.put(10, "a"), true);
  assert.equal(track.put(20, "b"), true);
  assert.equal(track.put(25, "b"), false, "nothing differs");
  assert.equal(track.put(30, null), true);
  assert.deepEqual([5, 10, 19, 20, 29, 30, 99].map((t) => track.at(t)), [null, "a", "a", "b", "b", null, null]);
});

test("of two rows at one time the later one holds", () => {
  const track = new Track<string>();
  track.put(10, "a");
  track.put(10, "b");
  assert.deepEqual({ times: track.times, rows: track.rows }, { times: [10], rows: ["b"] });
});

test("what a track forgets is over; what lasted stays", () => {
  const track = new Track<string>();
  for (const [time, row] of [[10, "a"], [20, "b"], [30, "c"]] as const) track.put(time, row);
  assert.equal(track.forget(25), 1);
  assert.deepEqual([20, 25, 30].map((t) => track.at(t)), ["b", "b", "c"]);
});

function story(): History {
  const h = new History();
  h.reset(snapshot(100, { base: { a: base("a"), b: base("b") }, pod: { p: pod("p", { base: "a" }) } }));
  h.change({ seq: 101, time: 200, set: { base: { b: base("b", { state: "down" }), c: base("c") } } });
  h.change({ seq: 102, time: 300, del: { base: ["a"], pod: ["p"] } });
  return h;
}

test("any moment can be shown again", () => {
  const h = story();
  const states = (t: number): Record<string, string> => Object.fromEntries([...h.at(t).base].map(([k, b]) => [k, b.state]));
  assert.deepEqual(states(150), { a: "ready", b: "ready" });
  assert.deepEqual(states(200), { a: "ready", b: "down", c: "ready" });
  assert.deepEqual(states(299), { a: "ready", b: "down", c: "ready" });
  assert.deepEqual(states(300), { b: "down", c: "ready" });
  assert.deepEqual(states(100), { a: "ready", b: "ready" }, "and back once more");
  assert.deepEqual([keys(h.at(299).pod), keys(h.at(300).pod)], [["p"], []]);
  assert.equal(h.at(1000), h.now);
});

test("a table in which nothing differs is the same one, and the past stays as it was", () => {
  const h = story();
  assert.equal(h.at(210).base, h.at(250).base);
  assert.notEqual(h.at(150).base, h.at(250).base);
  const before = h.now;
  h.change({ seq: 103, time: 400, set: { base: { b: base("b") } } });
  assert.equal(before.base.get("b")!.state, "down");
  assert.equal(h.now.pod, before.pod);
});

test("another snapshot says what is gone", () => {
  const h = story();
  h.reset(snapshot(500, { base: { c: base("c"), d: base("d") } }, { seq: 900 }));
  assert.deepEqual([keys(h.at(499).base), keys(h.now.base), h.begin, h.last], [["b", "c"], ["c", "d"], 100, 900]);
});

test("time never falls", () => {
  const h = story();
  h.change({ seq: 103, time: 250, set: { base: { z: base("z") } } });
  assert.equal(h.at(299).base.has("z"), false);
  assert.equal(h.at(300).base.has("z"), true);
});

test("an older history goes before this one without a seam", () => {
  const older = story();
  const h = new History();
  h.reset(snapshot(350, { base: { b: base("b", { state: "down" }), d: base("d") } }));
  h.change({ seq: 351, time: 400, set: { base: { b: base("b") } } });
  h.prepend(older);
  assert.deepEqual([100, 250, 300, 350].map((t) => keys(h.at(t).base)), [["a", "b"], ["a", "b", "c"], ["b", "c"], ["b", "d"]]);
  assert.deepEqual(h.tracks.base.get("b")!.times, [100, 200, 400], "that it is still down is no change");
  assert.deepEqual([h.begin, h.first], [100, 100]);
  assert.deepEqual([...h.podsOf.get("a")!], ["p"]);
  assert.equal(h.size, [...h.tracks.base.values(), ...h.tracks.pod.values()].reduce((n, t) => n + t.times.length, 0));
});

test("what is forgotten cannot be shown, all else can", () => {
  const h = story();
  h.forget(250);
  assert.deepEqual([h.begin, keys(h.at(250).base), keys(h.now.base)], [250, ["a", "b", "c"], ["b", "c"]]);
  h.forget(350);
  assert.deepEqual([keys(h.now.base), h.tracks.base.has("a"), h.podsOf.size], [["b", "c"], false, 0]);
});

test("rows of the past share what has not changed", () => {
  const before = base("a", { modules: [module("x", "1"), module("y", "1")] });
  const next = share(before, structuredClone({ ...before, modules: [module("x", "1"), module("y", "2")] }));
  assert.equal(next.modules[0], before.modules[0]);
  assert.deepEqual(next.modules[1], module("y", "2"));
  assert.equal(share(before, structuredClone(before)), before);
  const { state: _, ...less } = structuredClone(before);
  assert.notEqual(share(before, less), before, "a field less is a change");
});
