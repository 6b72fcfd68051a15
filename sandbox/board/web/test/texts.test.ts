import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { format, languageOf, texts } from "../src/texts";

const names = (text: string): string[] => [...text.matchAll(/\{(\w+)/g)].map((m) => m[1]!).sort();

// SAME are texts that are the same in Chinese: names of Kubernetes.
const SAME = new Set(["rowPods", "pods"]);

test("every text is there in both languages, and fills in the same", () => {
  for (const [key, [en, zh]] of Object.entries(texts) as [string, readonly [string, string]][]) {
    assert.ok(en.trim() !== "" && zh.trim() !== "", `${key} is empty`);
    assert.deepEqual(names(zh), names(en), `${key} fills in something else`);
    if (key !== "language" && !SAME.has(key)) assert.match(zh, /\p{Script=Han}/u, `${key} is not Chinese: ${zh}`);
    if (key !== "language") assert.doesNotMatch(en, /\p{Script=Han}/u, `${key} is not English: ${en}`);
  }
});

test("every text is used", () => {
  const source = ["src", "src/ui", "src/views", "src/lanes"].flatMap((dir) => readdirSync(dir).filter((f) => /\.tsx?$/.test(f) && f !== "texts.ts" && f !== "wire.ts").map((f) => readFileSync(`${dir}/${f}`, "utf8"))).join("\n");
  // Those that the server's words complete: states, kinds of rows, ids of actions.
  const made = /^(a_|k_|e_|l_|p_|w_|s_|row|route_|source_|lane|base$|module$|workload$|component$|fault$|stream$|running|starting|disconnected|down|unknown|paused|exited|pressure|brokenModule|badReason|ACTIVATED|RESOLVED|DEACTIVATED|STOPPED|BROKEN)/;
  const unused = Object.keys(texts).filter((key) => !made.test(key) && !new RegExp(`["'\`]${key.replace(".", "\\.")}["'\`]`).test(source));
  assert.deepEqual(unused, []);
});

test("texts are filled in", () => {
  assert.equal(format("{n|base|bases} of {zone}", { n: 1, zone: "a" }), "1 base of a");
  assert.equal(format("{n|base|bases}", { n: 1234 }), "1,234 bases");
  assert.equal(format("{n} {missing}", { n: 0 }), "0 {missing}");
});

test("the language follows what was chosen, then the browser", () => {
  assert.equal(languageOf("", null, ["zh-CN", "en"]), "zh");
  assert.equal(languageOf("", null, ["fr", "en-GB", "zh"]), "en");
  assert.equal(languageOf("", "zh", ["en"]), "zh");
  assert.equal(languageOf("en", "zh", ["zh"]), "en");
  assert.equal(languageOf("", null, ["fr"]), "en");
});
