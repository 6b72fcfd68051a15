// The script of a report page. Timelines are created when their run is shown for the first time.
import { runOf } from "./data";
import type { View } from "./data";
import { Timeline } from "./timeline";

const data = JSON.parse(document.getElementById("data")!.textContent!) as View;
const timelines = new Map<Element, Timeline>();

function timelineOf(details: Element): Timeline | undefined {
  const element = details.querySelector<HTMLElement>(".timeline");
  if (!element) return undefined;
  let timeline = timelines.get(element);
  if (!timeline) timelines.set(element, (timeline = new Timeline(element, runOf(data, Number(element.dataset["run"])))));
  return timeline;
}

for (const details of document.querySelectorAll<HTMLDetailsElement>("details.run")) {
  if (details.open) timelineOf(details);
  details.addEventListener("toggle", () => details.open && timelineOf(details));
  details.addEventListener("click", (e) => {
    const row = (e.target as Element).closest<HTMLElement>("tr.goto");
    const timeline = row && timelineOf(details);
    if (!timeline) return;
    const from = Number(row.dataset["from"]) / 1e3;
    const length = Number(row.dataset["length"]) / 1e3;
    const room = Math.max(length, 50);
    timeline.show(from - room * 0.6, from + length + room * 0.6);
    timeline.scroll.scrollIntoView({ block: "nearest" });
  });
}

function openTarget(): void {
  const target = location.hash.startsWith("#run-") && document.getElementById(location.hash.slice(1));
  if (target) (target as HTMLDetailsElement).open = true;
}
window.addEventListener("hashchange", openTarget);
openTarget();

const redraw = (): void => timelines.forEach((t) => t.draw());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
window.addEventListener("beforeprint", () => timelines.forEach((t) => t.drawNow(true)));
window.addEventListener("afterprint", redraw);
