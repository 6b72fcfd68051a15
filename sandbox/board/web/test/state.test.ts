import assert from "node:assert/strict";
import { test } from "node:test";
import { waitBefore } from "../src/state/feed";
import { Logbook } from "../src/state/logbook";
import { decode } from "../src/state/past";
import { faster, seek, step, tick, toggle } from "../src/state/player";
import type { Player } from "../src/state/player";
import { home, read, write } from "../src/state/url";
import { base, entry, keys, snapshot } from "./make";

const range = { begin: 1000, end: 61_000 };

test("the player stands, steps, plays and comes back to live", () => {
  const live: Player = { mode: "live" };
  const paused = seek(live, 30_000, range);
  assert.deepEqual(paused, { mode: "paused", time: 30_000, speed: 1 });
  assert.deepEqual(seek(live, 5, range), { mode: "paused", time: 1000, speed: 1 });
  assert.deepEqual(step(live, -1000, range), { mode: "paused", time: 60_000, speed: 1 });
  assert.deepEqual(step(paused, 1000, range), { mode: "paused", time: 31_000, speed: 1 });
  assert.deepEqual(step(paused, 40_000, range), live);
  assert.deepEqual(toggle(live, range), { mode: "paused", time: 61_000, speed: 1 });
  const playing = toggle(faster(paused, 1), range);
  assert.deepEqual(playing, { mode: "playing", time: 30_000, speed: 2 });
  assert.deepEqual(tick(playing, 500, range), { mode: "playing", time: 31_000, speed: 2 });
  assert.deepEqual(tick(playing, 20_000, range), live);
  assert.deepEqual(tick(paused, 20_000, range), paused);
  assert.deepEqual(toggle(playing, range), { mode: "paused", time: 30_000, speed: 2 });
  assert.deepEqual(toggle({ mode: "paused", time: 61_000, speed: 1 }, range), live);
});

test("speeds end at the slowest and the fastest", () => {
  let p: Player = { mode: "paused", time: 1, speed: 1 };
  for (let i = 0; i < 20; i++) p = faster(p, 1);
  assert.equal(p.mode === "paused" && p.speed, 30);
  for (let i = 0; i < 20; i++) p = faster(p, -1);
  assert.equal(p.mode === "paused" && p.speed, 0.25);
});

test("the URL says everything that is seen, and nothing that goes without saying", () => {
  assert.equal(write(home), "");
  assert.deepEqual(read(""), home);
  const place = { ...home, view: "log" as const, q: "a b&c=#%", zone: "zone-a", kinds: ["command", "event"], bad: true, sel: "workload:deployment/default/x", t: 1_790_000_000_000, lang: "zh" as const, theme: "dark" as const, dense: "0" as const };
  assert.deepEqual(read(write(place)), place);
});

test("nonsense in the URL does no harm", () => {
  assert.deepEqual(read("?view=nothing&t=-5&span=x&kinds=,A,%3Cb%3E&lang=fr&theme=pink&bad=yes&dense=7"), home);
});

test("the log keeps its order, its size, and each entry once", () => {
  const log = new Logbook(10);
  log.add([entry(5, { base: "a" }), entry(6)]);
  log.add([entry(6), entry(7, { base: "a" })]);
  log.prepend([entry(3, { base: "a" }), entry(4), entry(5)]);
  assert.deepEqual(log.entries.map((e) => e.id), [3, 4, 5, 6, 7]);
  assert.deepEqual(log.of("a").map((e) => e.id), [3, 5, 7]);
  assert.deepEqual([2999, 3000, 6500, 99_000].map((t) => log.until(t)), [0, 1, 4, 5]);
  log.add(Array.from({ length: 20 }, (_, i) => entry(8 + i)));
  assert.deepEqual([log.entries.length, log.entries.at(-1)!.id, log.of("a").length], [10, 27, 0]);
});

test("attempts to connect come less and less often, and never all at once", () => {
  assert.deepEqual([0, 1, 2, 10].map((n) => waitBefore(n, 0.5)), [500, 1000, 2000, 15_000]);
  assert.deepEqual([waitBefore(10, 0), waitBefore(10, 1)].map(Math.round), [12_000, 18_000]);
});

test("a chunk of the past is read up to where the page began to look", async () => {
  const lines = [
    snapshot(1000, { base: { a: base("a") } }, { seq: 1 }),
    { seq: 2, time: 2000, set: { base: { b: base("b") } }, log: [entry(1)] },
    { seq: 3, time: 3000, del: { base: ["a"] }, log: [entry(2)] },
  ].map((m) => JSON.stringify(m)).join("\n");
  const all = await decode(lines, Infinity);
  assert.deepEqual([keys(all.history.at(2500).base), keys(all.history.now.base), all.log.length], [["a", "b"], ["b"], 2]);
  const part = await decode(`${lines}\n`, 3);
  assert.deepEqual([keys(part.history.now.base), part.history.end, part.log.length], [["a", "b"], 2000, 1]);
});
