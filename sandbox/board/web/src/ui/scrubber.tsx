import type { JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { model, t } from "../app";
import { clock, lasting } from "../format";
import { tickOf } from "../lanes/layout";
import { coloursOf } from "../lanes/look";
import { densityOf, nextProblem } from "../state/derive";
import type { Frame } from "../state/model";
import { faster, seek, speeds, step, toggle } from "../state/player";
import { useSize } from "./bits";

const HEIGHT = 34;

const Icon = ({ path }: { path: string }): JSX.Element => <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true"><path d={path} fill="none" stroke="currentColor" stroke-width="2" /></svg>;

// toEnd returns the label of the buttons that show the newest state. A finished run is not live.
export const toEnd = ({ board }: Frame): string => t(board?.ended ? "toEnd" : "toLive");

// Scrubber selects the displayed time.
export function Scrubber({ frame, theme }: { frame: Frame; theme: string }): JSX.Element {
  const { history, log, player, time, live, past } = frame;
  const [box, width] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const { begin, end } = history;
  const parts = Math.max(Math.floor(width / 4), 1);
  const coarse = Math.floor(end / 1000);
  const density = useMemo(() => densityOf(log.entries, begin, end, parts), [log, begin, coarse, parts]);
  useEffect(() => {
    if (width === 0) return;
    const element = canvas.current!;
    const ratio = window.devicePixelRatio || 1;
    element.width = Math.round(width * ratio);
    element.height = Math.round(HEIGHT * ratio);
    const g = element.getContext("2d")!;
    const c = coloursOf(element);
    g.scale(ratio, ratio);
    const x = (t: number): number => ((t - begin) / Math.max(end - begin, 1)) * width;
    g.font = "10px system-ui, sans-serif";
    g.textBaseline = "alphabetic";
    const tick = tickOf(end - begin, Math.max(width / 110, 2));
    for (let at = Math.ceil(begin / tick) * tick; at < end; at += tick) {
      g.fillStyle = c.line;
      g.fillRect(Math.round(x(at)), 0, 1, HEIGHT);
      g.fillStyle = c.weak;
      if (x(at) < width - 60) g.fillText(clock(at, tick), x(at) + 4, 10);
    }
    const part = width / parts;
    const room = HEIGHT - 14;
    density.all.forEach((n, i) => {
      if (n === 0) return;
      const tall = Math.max(Math.sqrt(n / density.most) * room, 2);
      g.fillStyle = c.busy;
      g.globalAlpha = 0.55;
      g.fillRect(i * part, HEIGHT - tall, Math.max(part - 1, 1), tall);
      g.globalAlpha = 1;
      if (!density.bad[i]) return;
      g.fillStyle = c.bad;
      const bad = Math.max(tall * (density.bad[i]! / n), 4);
      g.fillRect(i * part, HEIGHT - bad, Math.max(part - 1, 1), bad);
    });
    const at = Math.min(x(time), width - 1);
    g.fillStyle = c.accent;
    g.globalAlpha = 0.1;
    g.fillRect(0, 0, at, HEIGHT);
    g.globalAlpha = 1;
    g.fillRect(Math.round(at) - 1, 0, 2, HEIGHT);
  }, [width, begin, end, time, density, theme]);

  const pick = (e: PointerEvent): void => {
    const place = box.current!.getBoundingClientRect();
    model.play(seek(model.player, begin + ((e.clientX - place.left) / place.width) * (end - begin), history));
  };
  const jump = (by: 1 | -1): void => {
    const to = nextProblem(log.entries, time, by);
    if (to !== null) model.play(seek(player, to, history));
  };
  const now = t(frame.board?.ended ? "ended" : "live");
  const ago = lasting(Math.max(end - time, 0));
  return (
    <footer class={live ? "scrubber" : "scrubber past"} aria-label={t("scrubber")}>
      <div class="controls">
        <button type="button" class="icon" aria-label={t("previousBad")} title={`${t("previousBad")} [`} onClick={() => jump(-1)}><Icon path="M3 3v10M13 3L6 8l7 5" /></button>
        <button type="button" class="icon" aria-label={t("back")} title={`${t("back")} ←`} onClick={() => model.play(step(player, -1000, history))}><Icon path="M10 3L5 8l5 5" /></button>
        <button type="button" class="icon play" aria-label={player.mode === "paused" ? t("play") : t("pause")} title={`${player.mode === "paused" ? t("play") : t("pause")} (Space)`} onClick={() => model.play(toggle(player, history))}>
          <span class={player.mode === "paused" ? "shape start" : "shape stop"} />
        </button>
        <button type="button" class="icon" aria-label={t("forward")} title={`${t("forward")} →`} onClick={() => model.play(step(player, 1000, history))}><Icon path="M6 3l5 5-5 5" /></button>
        <button type="button" class="icon" aria-label={t("nextBad")} title={`${t("nextBad")} ]`} onClick={() => jump(1)}><Icon path="M13 3v10M3 3l7 5-7 5" /></button>
        <select aria-label={t("speed")} value={String(player.mode === "live" ? 1 : player.speed)} disabled={live}
          onChange={(e) => player.mode !== "live" && model.play({ ...player, speed: Number(e.currentTarget.value) })}>
          {speeds.map((s) => <option value={String(s)}>{s}×</option>)}
        </select>
      </div>
      <div class="rail" ref={box} role="slider" tabIndex={0} aria-label={t("scrubber")} aria-valuemin={0} aria-valuemax={Math.round((end - begin) / 1000)} aria-valuenow={Math.round((time - begin) / 1000)}
        aria-valuetext={live ? `${clock(time)}, ${now}` : `${clock(time)}, ${t("ago", { d: ago })}`}
        onPointerDown={(e) => {
          e.currentTarget.setPointerCapture(e.pointerId);
          pick(e);
        }}
        onPointerMove={(e) => {
          if (e.currentTarget.hasPointerCapture(e.pointerId)) pick(e);
        }}>
        <canvas ref={canvas} style={{ height: `${HEIGHT}px` }} aria-hidden="true" />
      </div>
      <div class="shown">
        <b>{clock(time)}</b>
        <small>{past ? t("loadingPast") : live ? now : t("ago", { d: ago })}</small>
      </div>
      <button type="button" class="toLive" disabled={live} onClick={() => model.play({ mode: "live" })}>{toEnd(frame)}</button>
    </footer>
  );
}

// scrubKeys are the global keys of the scrubber.
export function scrubKeys(e: KeyboardEvent, frame: Frame): boolean {
  const { history, player } = frame;
  const by = e.shiftKey ? 10_000 : 1000;
  const jump = (direction: 1 | -1): void => {
    const to = nextProblem(frame.log.entries, frame.time, direction);
    if (to !== null) model.play(seek(player, to, history));
  };
  const acts: Record<string, () => void> = {
    " ": () => model.play(toggle(player, history)),
    ArrowLeft: () => model.play(step(player, -by, history)),
    ArrowRight: () => model.play(step(player, by, history)),
    Home: () => model.play(seek(player, history.begin, history)),
    End: () => model.play({ mode: "live" }),
    "[": () => jump(-1),
    "]": () => jump(1),
    ",": () => model.play(faster(player, -1)),
    ".": () => model.play(faster(player, 1)),
  };
  const act = acts[e.key];
  if (act) act();
  return act !== undefined;
}
