// The state of the view in the URL, so that links to a view can be shared.

export const views = ["overview", "lanes", "modules", "workloads", "traffic", "log", "components"] as const;
export type View = (typeof views)[number];

export interface Place {
  view: View;
  // q is a text that names must contain; zone, base, module and version are filters.
  q: string;
  zone: string;
  base: string;
  module: string;
  version: string;
  // state of bases or workloads.
  state: string;
  // kinds of log entries; none = all. bad = only problems.
  kinds: string[];
  bad: boolean;
  // sel is the object in the panel, as KIND:KEY; empty = the panel is closed.
  sel: string;
  // dense selects compact timeline rows; empty = automatic.
  dense: "" | "0" | "1";
  // t is the displayed time in milliseconds; null = live. span is the visible duration of the timeline.
  t: number | null;
  span: number | null;
  // lang and theme, if the user has selected them.
  lang: "" | "en" | "zh";
  theme: "" | "light" | "dark";
}

export const home: Place = {
  view: "overview", q: "", zone: "", base: "", module: "", version: "", state: "", kinds: [], bad: false,
  sel: "", dense: "", t: null, span: null, lang: "", theme: "",
};

const oneOf = <T extends string>(value: string | null, list: readonly T[], otherwise: T): T => list.find((v) => v === value) ?? otherwise;

function whole(value: string | null): number | null {
  const n = Number(value);
  return value !== null && value !== "" && Number.isSafeInteger(n) && n > 0 ? n : null;
}

// read parses the query of a URL and ignores unknown parameters.
export function read(search: string): Place {
  const p = new URLSearchParams(search);
  const text = (name: string): string => p.get(name) ?? "";
  return {
    view: oneOf(p.get("view"), views, home.view),
    q: text("q"), zone: text("zone"), base: text("base"), module: text("module"), version: text("version"), state: text("state"),
    kinds: text("kinds").split(",").filter((k) => /^[a-z]+$/.test(k)),
    bad: p.get("bad") === "1",
    sel: text("sel"),
    dense: oneOf(p.get("dense"), ["", "0", "1"] as const, ""),
    t: whole(p.get("t")),
    span: whole(p.get("span")),
    lang: oneOf(p.get("lang"), ["", "en", "zh"] as const, ""),
    theme: oneOf(p.get("theme"), ["", "light", "dark"] as const, ""),
  };
}

// write returns the query for a place, without default values.
export function write(place: Place): string {
  const p = new URLSearchParams();
  for (const name of Object.keys(home) as (keyof Place)[]) {
    const value = place[name];
    if (value === null || value === "" || value === false || value === home[name]) continue;
    if (Array.isArray(value)) {
      if (value.length > 0) p.set(name, value.join(","));
    } else p.set(name, value === true ? "1" : String(value));
  }
  const query = p.toString();
  return query === "" ? "" : `?${query}`;
}
