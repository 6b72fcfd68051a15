import { render } from "preact";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { currentLanguage, currentTheme, model, t } from "./app";
import { clock, lasting } from "./format";
import type { Frame } from "./state/model";
import { views } from "./state/url";
import { Help } from "./ui/help";
import { Panel } from "./ui/panel";
import { Scrubber, scrubKeys, toEnd } from "./ui/scrubber";
import { Filters, Head, Lost, Refused } from "./ui/shell";
import { useRedraw } from "./ui/theme";
import { Components } from "./views/components";
import { Lanes } from "./views/lanes";
import { Log } from "./views/log";
import { Modules } from "./views/modules";
import { Overview } from "./views/overview";
import { Traffic } from "./views/traffic";
import { Workloads } from "./views/workloads";

function Content({ frame, theme }: { frame: Frame; theme: string }): JSX.Element {
  switch (frame.place.view) {
    case "overview":
      return <Overview frame={frame} theme={theme} />;
    case "lanes":
      return <Lanes frame={frame} theme={theme} />;
    case "modules":
      return <Modules frame={frame} theme={theme} />;
    case "workloads":
      return <Workloads frame={frame} />;
    case "traffic":
      return <Traffic frame={frame} theme={theme} />;
    case "log":
      return <Log frame={frame} />;
    case "components":
      return <Components frame={frame} />;
  }
}

function App(): JSX.Element {
  const [, redraw] = useState(0);
  const [help, setHelp] = useState(false);
  useEffect(() => model.subscribe(() => redraw((n) => n + 1)), []);
  useRedraw(() => redraw((n) => n + 1));
  const language = currentLanguage();
  const theme = currentTheme();
  const frame = model.frame();
  useEffect(() => {
    const keys = (e: KeyboardEvent): void => onKey(e, () => setHelp(true));
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  useEffect(() => {
    document.title = `${frame.board?.title ?? "koupsandbox"} · ${t(frame.place.view)}`;
  }, [frame.board?.title, frame.place.view, language]);
  if (frame.access === "refused") return <Refused key={language} />;
  if (frame.history.begin === 0) return <main id="main" class="access">{frame.access === "lost" ? <Lost frame={frame} /> : <p role="status">{t("waiting")}</p>}</main>;
  return (
    <div class="page" key={language}>
      <Head frame={frame} theme={theme} help={() => setHelp(true)} />
      <div class="banners">
        {frame.access === "lost" && <Lost frame={frame} />}
        {!frame.live && <div class="banner past" role="status">{t("scrubHint", { time: clock(frame.time), d: lasting(Math.max(frame.history.end - frame.time, 0)) })} <button type="button" onClick={() => model.play({ mode: "live" })}>{toEnd(frame)}</button></div>}
        {frame.board?.failure && <div class="banner" role="status">{frame.board.failure}</div>}
        <Filters place={frame.place} />
      </div>
      <div class="middle">
        <main id="main" tabIndex={-1} aria-label={t(frame.place.view)}><Content frame={frame} theme={theme} key={frame.place.view} /></main>
        <Panel frame={frame} />
      </div>
      <Scrubber frame={frame} theme={theme} />
      {help && <Help close={() => setHelp(false)} />}
    </div>
  );
}

// onKey handles keyboard shortcuts, except while the user types.
function onKey(e: KeyboardEvent, help: () => void): void {
  const target = e.target as HTMLElement;
  const typing = target.matches("input, textarea, select") && !target.matches("[type=checkbox]");
  if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
  if (e.key === "Escape") {
    if (typing) target.blur();
    else model.go({ sel: "" });
    return;
  }
  if (typing || (e.key === " " && target.matches("button, a, summary, [type=checkbox]"))) return;
  const view = views[Number(e.key) - 1];
  if (view) model.reset({ view });
  else if (e.key === "/") document.getElementById("filter")?.focus();
  else if (e.key === "?") help();
  else if (!scrubs(e, target) || !scrubKeys(e, model.frame())) return;
  e.preventDefault();
}

// scrubs reports whether a key is for the scrubber: scrollable lists use Home, End and Space themselves.
const scrubs = (e: KeyboardEvent, target: HTMLElement): boolean => !(target.closest(".virtual, .matrix, .lanes") && ["Home", "End", " "].includes(e.key));

document.getElementById("old")?.remove();
render(<App />, document.getElementById("board")!);
void model.start();
