// The appearance of states, on the board and in reports.

export type Thing = "life" | "node" | "module" | "pod" | "process" | "fault" | "endpoints" | "step";
export type Way = "solid" | "pale" | "hatched";
export type Look = readonly [colour: string, way: Way];

// VERSION_COLOURS is the number of colours for versions; they repeat after that.
export const VERSION_COLOURS = 8;

const names = ["back", "panel", "line", "text", "weak", "good", "bad", "warn", "none", "busy", "accent",
  "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7"] as const;

export type Colours = Record<(typeof names)[number], string> & { version(n: number): string };

// coloursOf reads the current colours of the style sheet.
export function coloursOf(element: Element): Colours {
  const style = getComputedStyle(element);
  const c = Object.fromEntries(names.map((n) => [n, style.getPropertyValue(`--${n}`).trim()])) as unknown as Colours;
  c.version = (n) => (n < 0 ? c.none : c[`v${n % VERSION_COLOURS}` as "v0"]);
  return c;
}

// lookOf returns the appearance of a state: its colour, and solid, pale or hatched.
export function lookOf(c: Colours, thing: Thing, state: string, version: number): Look {
  switch (thing) {
    case "life":
      return {
        ready: [c.good, "solid"], starting: [c.busy, "hatched"],
        disconnected: [c.warn, "solid"], down: [c.bad, "hatched"],
        unhealthy: [c.bad, "solid"], // the process is ready, and its health is DOWN
      }[state] as Look | undefined ?? [c.none, "pale"];
    case "node":
      return [state === "Ready" ? c.good : c.warn, "solid"];
    case "module":
      return {
        ACTIVATED: [c.version(version), "solid"], RESOLVED: [c.version(version), "hatched"],
        DEACTIVATED: [c.version(version), "pale"], BROKEN: [c.bad, "solid"],
      }[state] as Look | undefined ?? [c.version(version), "pale"];
    case "pod":
      return {
        ready: [c.version(version), "solid"], pending: [c.none, "hatched"], terminating: [c.none, "pale"],
      }[state] as Look | undefined ?? [c.version(version), "hatched"];
    case "process":
      return {
        running: [c.good, "pale"], paused: [c.warn, "hatched"], stopping: [c.warn, "hatched"], exited: [c.bad, "hatched"],
      }[state] as Look | undefined ?? [c.none, "pale"];
    case "fault":
      return [c.warn, "hatched"];
    case "endpoints":
      return {
        all: [c.good, "pale"], some: [c.warn, "pale"], none: [c.bad, "solid"], empty: [c.bad, "hatched"],
      }[state] as Look | undefined ?? [c.none, "pale"];
    case "step":
      return { passed: [c.good, "pale"], began: [c.busy, "pale"], skipped: [c.none, "hatched"] }[state] as Look | undefined ?? [c.bad, "solid"];
  }
}

// MARKS are the colours and widths of instantaneous events.
export const MARKS = { failure: ["bad", 2], lost: ["bad", 1], fired: ["warn", 2] } as const;

// VersionNumbers assigns a colour number to each version. New versions get the next numbers, so existing
// colours do not change.
export class VersionNumbers {
  readonly list: string[] = [];
  private readonly numbers = new Map<string, number>();

  of(version: string): number {
    if (version === "") return -1;
    let n = this.numbers.get(version);
    if (n === undefined) {
      n = this.list.length;
      this.numbers.set(version, n);
      this.list.push(version);
    }
    return n;
  }

  // sort assigns all numbers again, in natural order of versions, so that pages with the same data have the
  // same colours.
  sort(more: Iterable<string>): void {
    const all = new Set([...this.list, ...more]);
    this.list.length = 0;
    this.numbers.clear();
    this.learn(all);
  }

  // learn assigns numbers to new versions in natural order.
  learn(versions: Iterable<string>): void {
    const fresh = [...new Set(versions)].filter((v) => v !== "" && !this.numbers.has(v));
    fresh.sort(compareNames).forEach((v) => this.of(v));
  }
}

const collator = new Intl.Collator("en", { numeric: true });

// compareNames compares names in natural order: base-2 is before base-10.
export const compareNames = (a: string, b: string): number => collator.compare(a, b);
