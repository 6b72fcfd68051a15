// Bundles the page and its tests into .build, for work on them. What is committed in
// dist is made by `make generate`, with the same options.
import { build } from "esbuild";
import { cpSync, readdirSync } from "node:fs";

const common = { bundle: true, format: "esm", target: "es2022", charset: "utf8", jsx: "automatic", jsxImportSource: "preact", logLevel: "warning" };

await build({ ...common, entryPoints: { app: "src/main.tsx" }, outdir: ".build", minify: true, legalComments: "none" });
cpSync("static", ".build", { recursive: true });
await build({ ...common, entryPoints: { app: "src/style.css" }, outdir: ".build", minify: true });
const tests = readdirSync("test").filter((f) => f.endsWith(".test.ts")).map((f) => `test/${f}`);
if (tests.length > 0) await build({ ...common, entryPoints: tests, outdir: ".build/test", outExtension: { ".js": ".mjs" }, platform: "node" });
