// Bundles everything, then runs the tests of the parts that need no browser.
import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";

rmSync(".build/test", { recursive: true, force: true });
await import("../build.mjs");
const files = readdirSync(".build/test").map((f) => `.build/test/${f}`);
process.exit(spawnSync(process.execPath, ["--test", ...process.argv.slice(2), ...files], { stdio: "inherit" }).status ?? 1);
