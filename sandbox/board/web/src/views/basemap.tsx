import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { BaseRow, ModuleOnBase } from "../wire";
import { model, t } from "../app";
import { coloursOf } from "../lanes/look";
import type { Colours, VersionNumbers } from "../lanes/look";
import { healthOf } from "../state/derive";
import { useSize } from "../ui/bits";
import { showTip } from "../ui/tip";
import { stateWord } from "./base";

const GAP = 3;

// BaseMap draws hundreds of bases as squares: stripes of the versions on them, a bar of metaspace,
// and a frame around those that are not well.
export function BaseMap({ bases, shown, versions, theme, chosen }: { bases: readonly BaseRow[]; shown: number; versions: VersionNumbers; theme: string; chosen: string }): JSX.Element {
  const [box, width] = useSize<HTMLDivElement>();
  const ref = useRef<HTMLCanvasElement>(null);
  const [at, setAt] = useState(-1);
  const cell = shown > 500 ? 16 : 24;
  const columns = Math.max(Math.floor((width + GAP) / (cell + GAP)), 1);
  const height = Math.ceil(bases.length / columns) * (cell + GAP);
  useEffect(() => {
    if (width > 0) draw(ref.current!, bases, { width, height, cell, columns, versions, at, chosen });
  }, [bases, width, cell, at, chosen, theme]);
  const find = (e: MouseEvent): number => {
    const column = Math.floor(e.offsetX / (cell + GAP));
    const i = Math.floor(e.offsetY / (cell + GAP)) * columns + column;
    return column < columns && i < bases.length ? i : -1;
  };
  const say = (i: number): string => {
    const b = bases[i];
    return b ? `${b.name}: ${stateWord(b)}\n${b.modules.slice(0, 12).map((m) => `${m.name}:${m.version}`).join("\n")}${b.modules.length > 12 ? `\n${t("andMore", { n: b.modules.length - 12 })}` : ""}` : "";
  };
  const keys = (e: KeyboardEvent): void => {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[e.key];
    if (by !== undefined) {
      e.preventDefault();
      e.stopPropagation();
      setAt(Math.min(Math.max((at < 0 ? 0 : at) + (at < 0 ? 0 : by), 0), bases.length - 1));
    } else if (e.key === "Enter" && bases[at]) model.go({ sel: `base:${bases[at]!.name}` });
  };
  return (
    <div ref={box} class="basemap">
      <canvas ref={ref} tabIndex={0} role="application" aria-label={t("mapHint")} onKeyDown={keys} onFocus={() => at < 0 && setAt(0)} onBlur={() => setAt(-1)}
        onPointerMove={(e) => showTip(say(find(e)), e)} onPointerLeave={() => showTip("")}
        onClick={(e) => {
          const b = bases[find(e)];
          if (b) model.go({ sel: `base:${b.name}` });
        }} />
      <span class="hidden" aria-live="polite">{say(at)}</span>
    </div>
  );
}

interface Layout {
  width: number;
  height: number;
  cell: number;
  columns: number;
  versions: VersionNumbers;
  at: number;
  chosen: string;
}

function draw(canvas: HTMLCanvasElement, bases: readonly BaseRow[], l: Layout): void {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(l.width * ratio), Math.round(l.height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${l.width}px`;
    canvas.style.height = `${l.height}px`;
  }
  const g = canvas.getContext("2d")!;
  const c = coloursOf(canvas);
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, l.width, l.height);
  bases.forEach((b, i) => {
    const x = (i % l.columns) * (l.cell + GAP);
    const y = Math.floor(i / l.columns) * (l.cell + GAP);
    drawBase(g, c, b, x, y, l.cell, l.versions);
    if (i === l.at || l.chosen === `base:${b.name}`) {
      g.strokeStyle = c.accent;
      g.lineWidth = 2;
      g.strokeRect(x - 1, y - 1, l.cell + 2, l.cell + 2);
    }
  });
}

function drawBase(g: CanvasRenderingContext2D, c: Colours, b: BaseRow, x: number, y: number, cell: number, versions: VersionNumbers): void {
  const health = healthOf(b);
  const tall = cell - 4;
  g.fillStyle = c.panel;
  g.fillRect(x, y, cell, cell);
  if (health === "bad") {
    g.fillStyle = c.bad;
    g.globalAlpha = 0.25;
    g.fillRect(x, y, cell, cell);
    g.globalAlpha = 1;
  } else {
    const width = cell / Math.max(b.modules.length, 1);
    const like = (a: ModuleOnBase, b: ModuleOnBase | undefined): boolean => a.version === b?.version && a.state === b.state;
    for (let i = 0; i < b.modules.length;) { // modules beside each other that look alike are one stripe
      const m = b.modules[i]!;
      const first = i++;
      while (like(m, b.modules[i])) i++;
      g.fillStyle = m.state === "BROKEN" ? c.bad : c.version(versions.of(m.version));
      g.globalAlpha = m.state === "ACTIVATED" || m.state === "BROKEN" ? 1 : 0.4;
      g.fillRect(x + first * width, y, (i - first) * width, tall);
    }
    g.globalAlpha = 1;
  }
  const share = (b.metaspaceUsed ?? 0) / (b.metaspaceMax || Infinity);
  g.fillStyle = share > 0.9 ? c.bad : share > 0.75 ? c.warn : c.weak;
  g.fillRect(x, y + cell - 3, cell * Math.min(share, 1), 2);
  if (health === "good") return;
  g.strokeStyle = health === "bad" ? c.bad : health === "warn" ? c.warn : c.busy;
  g.lineWidth = 2;
  g.strokeRect(x + 1, y + 1, cell - 2, cell - 2);
  if (health === "busy") return;
  g.beginPath(); // a cross, or a stroke: not by colour alone
  g.moveTo(x + 3, y + cell - 3);
  g.lineTo(x + cell - 3, y + 3);
  if (health === "bad") {
    g.moveTo(x + 3, y + 3);
    g.lineTo(x + cell - 3, y + cell - 3);
  }
  g.stroke();
}
