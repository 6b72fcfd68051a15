import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { StepRow, StreamRow } from "../wire";
import { maybe, model, t } from "../app";
import { clock, lasting, moment } from "../format";
import { columnsOf, rowDuring } from "../lanes/build";
import { hitOf } from "../lanes/hit";
import { AXIS, CHART, GUTTER, PAD, place as placeLane, Stack, STEP_HEIGHT } from "../lanes/layout";
import type { Placed } from "../lanes/layout";
import { coloursOf } from "../lanes/look";
import type { Lane } from "../lanes/model";
import { Painter } from "../lanes/painter";
import type { Head } from "../lanes/painter";
import { matchesBase, spanOf, versionsOf, zonesOf } from "../state/derive";
import type { Track } from "../state/history";
import type { Frame } from "../state/model";
import { seek } from "../state/player";
import { Empty, Swatch, useSize } from "../ui/bits";
import { showTip } from "../ui/tip";

// SPAN is the default visible duration, except for a finished run, and ROOM the free space after the end.
const SPAN = 120e3;
const ROOM = 0.03;
const SHORTEST = 200;

// BoardHead is the fixed part above the lanes, with the objects that clicks show.
type BoardHead = (Omit<Head & { kind: "steps" }, "steps"> & { steps: readonly StepRow[] }) | (Head & { kind: "stream"; key: string; track: Track<StreamRow> });

// MANY is the number of bases from which lanes are compact.
const MANY = 12;

export function Lanes({ frame, theme }: { frame: Frame; theme: string }): JSX.Element {
  const { history, world, builder, place, live, time, versions } = frame;
  const [box, width, room] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const painter = useRef<Painter | null>(null);
  const [top, setTop] = useState(0);
  const [at, setAt] = useState(-1);
  // right is the end of the view after the user has moved it; null = it follows the displayed time.
  const [right, setRight] = useState<number | null>(null);
  const usual = spanOf(frame.board, SPAN * (1 - ROOM)) / (1 - ROOM);
  const span = place.span ?? usual;
  const to = right ?? time + span * ROOM;
  const from = to - span;

  const names = useMemo(() => {
    const known = new Map([...history.tracks.base].map(([name, track]) => [name, track.rows.findLast((r) => r !== null)!]));
    return zonesOf([...known.values()].filter((b) => matchesBase(b, { ...place, state: "" }))).flatMap((z) => z.bases.map((b) => b.name));
  }, [history, history.tracks.base.size, place.q, place.zone, place.base, place.module, place.version]);
  const filtered = Boolean(place.q || place.zone || place.base || place.module || place.version);
  const heads = filtered ? [] : builder.heads();
  const dense = place.dense === "" ? names.length > MANY : place.dense === "1";
  const stack = useMemo(() => {
    const modules = (name: string): number => Math.min(history.now.base.get(name)?.modules.length ?? 2, 12);
    return new Stack((name) => (dense ? 14 + 6 * modules(name) : 34 + 26 * modules(name)));
  }, [history, dense]);
  stack.set(names);

  const head: BoardHead[] = [];
  let headHeight = AXIS;
  if (world.step.size > 0) {
    head.push({ kind: "steps", title: t("laneSteps"), y: headHeight, height: STEP_HEIGHT + PAD, steps: [...history.now.step.values()] });
    headHeight += STEP_HEIGHT + PAD;
  }
  for (const [key, track] of [...history.tracks.stream].slice(0, 3)) {
    const name = track.rows.findLast((r) => r !== null)?.name ?? key;
    const now = track.at(live ? history.end : time);
    const notes = [{ text: now ? `${Math.round(now.rate)}/s` : "–" }, ...(now?.lost ? [{ text: t("nLost", { n: now.lost }), bad: true }] : [])];
    head.push({ kind: "stream", title: t("laneStream", { name }), y: headHeight, height: CHART + PAD, key, track, notes, columns: (a, b, least) => columnsOf(track, a, b, least, versions) });
    headHeight += CHART + PAD;
  }
  if (headHeight > room * 0.5) {
    head.splice(1);
    headHeight = AXIS + (head[0]?.height ?? 0);
  }

  // The visible lanes. Lanes that were never visible may be higher than estimated.
  const placed: Placed[] = [];
  let y = headHeight - top;
  for (const lane of heads) {
    const p = placeLane(lane, y);
    placed.push(p);
    y += p.height;
  }
  const above = y + top - headHeight;
  const first = Math.max(stack.at(top - above), 0);
  y = headHeight + above + stack.top(first) - top;
  for (let i = first; i < names.length && y < room; i++) {
    const p = placeLane(builder.base(names[i]!), y, dense);
    stack.learn(names[i]!, p.height);
    placed.push(p);
    y += p.height;
  }
  const whole = above + stack.total;

  useEffect(() => {
    painter.current = new Painter(canvas.current!);
  }, []);
  useEffect(() => painter.current?.recolour(), [theme]);
  useEffect(() => {
    if (width < GUTTER + 60 || room < 40) return;
    painter.current!.paint({
      width, height: room, from, to, begin: history.begin, end: live ? time : history.end, cursor: live ? null : time, head, headHeight,
      lanes: placed.filter((p) => p.y < room && p.y + p.height > headHeight), zone: new Date(from).getTimezoneOffset() * 60e3, title: titleOf, words: (label) => t(label as "rowPods"), clock,
    });
  });

  const show = (newSpan: number, middle: number): void => {
    const s = Math.min(Math.max(newSpan, SHORTEST), Math.max((history.end - history.begin) * 1.1, usual));
    const share = (middle - from) / span;
    model.go({ span: Math.round(s) === Math.round(usual) ? null : Math.round(s) }, true);
    setRight(right === null && middle === time ? null : middle - s * share + s);
  };
  const move = (by: number): void => {
    const next = Math.min(Math.max(to + by, history.begin + span * 0.2), history.end + span * ROOM);
    setRight(live && next >= history.end ? null : next);
  };
  const all = [...heads.map((l) => ({ top: 0, lane: l })), ...names.map((n) => ({ top: 0, lane: { kind: "base", name: n } as Lane }))];

  useEffect(() => {
    const element = canvas.current!;
    const wheel = (e: WheelEvent): void => {
      if (e.ctrlKey || e.metaKey) {
        e.preventDefault();
        show(span * Math.exp(e.deltaY * 0.004), painter.current!.time(e.offsetX));
      } else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
        e.preventDefault();
        move(((e.deltaX || e.deltaY) / (width - GUTTER)) * span);
      }
    };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  });

  const drag = useRef<{ x: number; moved: boolean } | null>(null);
  const hit = (x: number, py: number): { text: string; on: readonly [string, string] | null; time: number } => hitAt(painter.current!, placed, head, headHeight, frame, x, py, (3 * span) / (width - GUTTER));
  const keys = (e: KeyboardEvent): void => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const acts: Record<string, () => void> = {
      "+": () => show(span * 0.5, right === null ? time : (from + to) / 2), "=": () => show(span * 0.5, right === null ? time : (from + to) / 2),
      "-": () => show(span * 2, right === null ? time : (from + to) / 2),
      ArrowDown: () => choose(1), ArrowUp: () => choose(-1),
      Enter: () => {
        const lane = all[at]?.lane;
        if (lane?.kind === "base") model.go({ sel: `base:${lane.name}` });
        else if (lane?.kind === "component" && lane.name) model.go({ sel: `component:${lane.name}` });
        else if (lane?.kind === "service") model.go({ sel: `service:${lane.name}` });
      },
    };
    const act = acts[e.key];
    if (!act) return;
    e.preventDefault();
    e.stopPropagation();
    act();
  };
  const choose = (by: number): void => {
    const next = Math.min(Math.max(at + by, 0), all.length - 1);
    setAt(next);
    const i = next - heads.length;
    const y = i >= 0 ? above + stack.top(i) : heads.slice(0, next).reduce((n, l) => n + placeLane(l, 0).height, 0);
    const scroll = box.current!;
    if (y < scroll.scrollTop || y + 60 > scroll.scrollTop + room - headHeight) scroll.scrollTop = Math.max(y - 40, 0);
  };
  const chosen = placed.find((p) => at >= 0 && p.lane.kind === all[at]?.lane.kind && p.lane.name === all[at]?.lane.name);

  return (
    <div class="fill">
      <div class="key">
        <button type="button" class="icon" aria-label={t("zoomIn")} title={t("zoomIn")} onClick={() => show(span * 0.5, right === null ? time : (from + to) / 2)}>+</button>
        <button type="button" class="icon" aria-label={t("zoomOut")} title={t("zoomOut")} onClick={() => show(span * 2, right === null ? time : (from + to) / 2)}>−</button>
        <span class="nowrap">{lasting(span)}</span>
        <label class="chip"><input type="checkbox" checked={dense} onChange={() => model.go({ dense: dense ? "0" : "1" }, true)} />{t("dense")}</label>
        <details class="legend"><summary>{t("legend")}</summary><Legend theme={theme} /></details>
        <small>{t("lanesHint")}</small>
        <Versions frame={frame} />
      </div>
      {names.length === 0 && <Empty>{history.tracks.base.size ? t("noneMatch") : t("noBases")}</Empty>}
      <div class="lanes" ref={box} onScroll={(e) => {
        setTop(e.currentTarget.scrollTop);
        showTip("");
      }}>
        <canvas ref={canvas} tabIndex={0} role="application" aria-label={t("lanesLabel")} onKeyDown={keys} onBlur={() => setAt(-1)}
          onPointerDown={(e) => {
            drag.current = { x: e.clientX, moved: false };
            e.currentTarget.setPointerCapture(e.pointerId);
            showTip("");
          }}
          onPointerMove={(e) => {
            const d = drag.current;
            if (!d) showTip(hit(e.offsetX, e.offsetY).text, e);
            else if (d.moved || Math.abs(e.clientX - d.x) > 4) {
              move(((d.x - e.clientX) / (width - GUTTER)) * span);
              drag.current = { x: e.clientX, moved: true };
            }
          }}
          onPointerUp={(e) => {
            const moved = drag.current?.moved;
            drag.current = null;
            if (moved) return;
            const { on, time: clicked } = hit(e.offsetX, e.offsetY);
            if (e.offsetY < AXIS && e.offsetX > GUTTER) model.play(seek(model.player, clicked, history));
            else if (on) model.go({ sel: `${on[0]}:${on[1]}` });
          }}
          onPointerCancel={() => (drag.current = null)} onPointerLeave={() => showTip("")} />
        <div class="spacer" style={{ height: `${Math.max(whole + headHeight - room, 0)}px` }} />
        {chosen && <div class="chosenLane" aria-hidden="true" style={{ top: `${chosen.y + top}px`, height: `${chosen.height}px` }} />}
      </div>
      <span class="hidden" aria-live="polite">{at >= 0 && all[at] ? describe(all[at]!.lane, frame) : ""}</span>
    </div>
  );
}

function titleOf({ lane }: { lane: Lane }): string {
  switch (lane.kind) {
    case "component":
      return lane.name || t("laneComponents");
    case "faults":
      return t("laneFaults");
    case "waiting":
      return t("laneWaiting");
    case "service":
      return t("laneService", { name: lane.name.slice(lane.name.indexOf("/") + 1) });
    case "base":
      return lane.name;
  }
}

function describe(lane: Lane, { world }: Frame): string {
  const b = lane.kind === "base" ? world.base.get(lane.name) : undefined;
  return b ? `${b.name}: ${maybe(b.state, b.state)}; ${b.modules.map((m) => `${m.name}:${m.version} ${maybe(m.state, m.state)}`).join(", ")}` : titleOf({ lane });
}

// hitAt returns the object at a position.
function hitAt(p: Painter, placed: readonly Placed[], head: readonly BoardHead[], headHeight: number, { history, live, time }: Frame, x: number, y: number, near: number): { text: string; on: readonly [string, string] | null; time: number } {
  const at = p.time(x);
  if (y < headHeight) {
    const h = head.find((h) => y >= h.y && y < h.y + h.height);
    if (h?.kind === "stream") {
      const row = rowDuring(h.track, at);
      const versions = Object.entries(row?.versions ?? {}).map(([v, n]) => `${v}: ${n}`);
      return { text: row && x > GUTTER ? [clock(at), t("perSecond", { n: row.rate }), ...versions, row.lostRate ? t("nLost", { n: row.lostRate }) : ""].filter((s) => s).join("\n") : h.title, on: ["stream", h.key], time: at };
    }
    if (h?.kind === "steps") {
      const s = h.steps.find((s) => s.from <= at && at <= (s.to || history.end));
      return { text: s ? `${s.name}: ${s.state}\n${s.message ?? ""}` : "", on: null, time: at };
    }
    return { text: "", on: null, time: at };
  }
  const lane = placed.find((l) => y >= l.y && y < l.y + l.height);
  if (!lane) return { text: "", on: null, time: at };
  const own: readonly [string, string] | null = lane.lane.name ? [lane.lane.kind, lane.lane.name] : null;
  if (x < GUTTER) return { text: titleOf(lane), on: own, time: at };
  const { bar, marks } = hitOf(lane, at, y - lane.y, near);
  const lines = marks.map((m) => `${m.text}\n${moment(m.from)}${m.to > m.from ? `, ${lasting(m.to - m.from)}` : ""}`);
  if (!bar) return { text: lines.join("\n"), on: own, time: at };
  const end = Math.min(bar.to, live ? time : history.end);
  lines.push(`${bar.name}: ${maybe(bar.state, bar.state)}${bar.text ? `\n${bar.text}` : ""}\n${moment(bar.from)}, ${lasting(end - bar.from)}`);
  return { text: lines.join("\n"), on: bar.on ?? own, time: at };
}

function Versions({ frame: { world, versions } }: { frame: Frame }): JSX.Element {
  const list = useMemo(() => [...new Set(versionsOf(world))].sort((a, b) => versions.of(a) - versions.of(b)), [world.base, world.workload]);
  return <span class="versions">{list.slice(0, 8).map((v) => <span class="version"><Swatch n={versions.of(v)} />{v}</span>)}{list.length > 8 && <small>{t("andMore", { n: list.length - 8 })}</small>}</span>;
}

const LEGEND = [
  ["life", "ready", "l_ready"], ["life", "starting", "l_starting"], ["life", "disconnected", "l_disconnected"], ["life", "down", "l_down"],
  ["module", "ACTIVATED", "l_serves"], ["module", "RESOLVED", "l_installing"], ["module", "DEACTIVATED", "l_deactivated"], ["module", "BROKEN", "l_broken"],
  ["pod", "terminating", "l_terminating"], ["pod", "pending", "l_pending"], ["process", "running", "l_component"], ["fault", "set", "l_fault"], ["endpoints", "some", "l_some"],
] as const;

function Legend({ theme }: { theme: string }): JSX.Element {
  const ref = useRef<HTMLUListElement>(null);
  useEffect(() => {
    const boxes = ref.current!.querySelectorAll("canvas");
    const c = coloursOf(ref.current!);
    LEGEND.forEach(([thing, state], i) => Painter.sample(boxes[i]!, c, thing, state));
  }, [theme]);
  return <ul ref={ref} class="plain">{LEGEND.map(([, , text]) => <li><canvas width="32" height="20" aria-hidden="true" />{t(text)}</li>)}<li>{t("l_lines")}</li></ul>;
}
