import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { BaseRow } from "../wire";
import { model, t } from "../app";
import { count } from "../format";
import { coloursOf } from "../lanes/look";
import type { VersionNumbers } from "../lanes/look";
import { matchesBase, modulesOf, zonesOf } from "../state/derive";
import type { ModuleCount } from "../state/derive";
import type { Frame } from "../state/model";
import { Bar, Dot, Empty, Goto, Open, Section, Swatch, useSize } from "../ui/bits";
import { showTip } from "../ui/tip";
import { Virtual } from "../ui/virtual";

export function Modules({ frame, theme }: { frame: Frame; theme: string }): JSX.Element {
  const { world, place, versions } = frame;
  const bases = useMemo(
    () => zonesOf([...world.base.values()].filter((b) => matchesBase(b, { ...place, q: "" }))).flatMap((z) => z.bases),
    [world.base, place.zone, place.base, place.module, place.version, place.state],
  );
  const rows = useMemo(() => {
    const q = place.q.toLowerCase();
    return modulesOf(bases).filter((m) => (!place.module || m.name === place.module) && (!q || m.name.toLowerCase().includes(q) || m.versions.some((v) => `${m.name}:${v.version}`.includes(q))));
  }, [bases, place.q, place.module]);
  if (rows.length === 0) return <Empty>{world.base.size > 0 && place.q ? t("noneMatch") : t("noModules")}</Empty>;
  return (
    <div class="fill split">
      <Section title={t("moduleVersions")} aside={count(rows.length)} class="half">
        <Virtual count={rows.length} row={(i) => rows[i]!} height={30} label={t("moduleVersions")} keyOf={(m) => m.name}
          head={[<th>{t("module")}</th>, <th class="number">{t("onBases")}</th>, <th class="track">{t("byVersion")}</th>, <th>{t("versions")}</th>]}
          draw={(m) => [
            <td><Open sel={`module:${m.name}`}>{m.name}</Open></td>,
            <td class="number">{count(m.bases)}</td>,
            <td class="track"><VersionBar module={m} versions={versions} /></td>,
            <td class="nowrap">{m.versions.slice(0, 5).map((v) => (
              <Goto to={{ view: "overview", module: m.name, version: v.version }} class="version">
                <Swatch n={versions.of(v.version)} />{v.version || "–"} <small>{count(v.active + v.installing + v.inactive + v.broken)}</small>{" "}
                {v.broken > 0 && <b class="badly"><Dot health="bad" /> {t("nBroken", { n: v.broken })}</b>}{" "}
              </Goto>
            ))}</td>,
          ]} />
      </Section>
      <Section title={t("matrix")} aside={`${count(rows.length)} × ${count(bases.length)}`} class="grow">
        <p class="hint">{t("matrixHint")}</p>
        <Matrix modules={rows} bases={bases} versions={versions} theme={theme} />
      </Section>
    </div>
  );
}

function VersionBar({ module, versions }: { module: ModuleCount; versions: VersionNumbers }): JSX.Element {
  const parts = module.versions.flatMap((v) => {
    const look = `v${Math.max(versions.of(v.version), 0) % 8}`;
    return [
      { n: v.active, look, label: v.version }, { n: v.installing, look: `${look} installing`, label: v.version },
      { n: v.inactive, look: `${look} inactive`, label: v.version }, { n: v.broken, look: "broken", label: v.version },
    ];
  });
  const whole = parts.reduce((n, p) => n + p.n, 0);
  return <Bar parts={parts} whole={whole} label={module.versions.map((v) => `${v.version}: ${v.active} ${t("ACTIVATED")}${v.broken ? `, ${t("nBroken", { n: v.broken })}` : ""}`).join("; ")} />;
}

const TITLES = 128;

// Matrix draws modules on bases as cells of the available size. It scrolls if they do not fit.
function Matrix({ modules, bases, versions, theme }: { modules: readonly ModuleCount[]; bases: readonly BaseRow[]; versions: VersionNumbers; theme: string }): JSX.Element {
  const [box, width, room] = useSize<HTMLDivElement>();
  const ref = useRef<HTMLCanvasElement>(null);
  const [top, setTop] = useState(0);
  const [at, setAt] = useState<[number, number] | null>(null);
  const wide = Math.min(Math.max((width - TITLES) / bases.length, 0.5), 26);
  const tall = modules.length * 18 <= room ? 18 : 14;
  const numbers = useMemo(() => new Map(modules.map((m, i) => [m.name, i])), [modules]);
  useEffect(() => {
    const element = box.current!;
    const scroll = (): void => setTop(element.scrollTop);
    element.addEventListener("scroll", scroll, { passive: true });
    return () => element.removeEventListener("scroll", scroll);
  }, []);
  useEffect(() => {
    const canvas = ref.current!;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(room * ratio);
    canvas.style.height = `${room}px`;
    const g = canvas.getContext("2d", { alpha: false })!;
    const c = coloursOf(canvas);
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.fillStyle = c.back;
    g.fillRect(0, 0, width, room);
    g.font = "11px system-ui, sans-serif";
    g.textBaseline = "middle";
    const first = Math.floor(top / tall);
    const last = Math.min(Math.ceil((top + room) / tall), modules.length);
    g.fillStyle = c.text;
    for (let i = first; i < last; i++) g.fillText(modules[i]!.name, 0, i * tall - top + tall / 2, TITLES - 8);
    g.fillStyle = c.panel;
    for (let i = first; i < last; i++) g.fillRect(TITLES, i * tall - top + 1, wide * bases.length, tall - 2);
    const gap = wide > 5 ? 1 : 0;
    bases.forEach((b, x) => {
      for (const m of b.modules) {
        const y = numbers.get(m.name);
        if (y === undefined || y < first || y >= last) continue;
        if (m.state === "RESOLVED") { // it stands beneath the version that still serves
          g.fillStyle = c.panel;
          g.fillRect(TITLES + x * wide, y * tall - top + tall / 2, Math.max(wide - gap, 1), tall / 2 - 1);
        }
        g.fillStyle = m.state === "BROKEN" ? c.bad : c.version(versions.of(m.version));
        g.globalAlpha = m.state === "RESOLVED" || m.state === "DEACTIVATED" ? 0.45 : 1;
        const half = m.state === "RESOLVED" || m.state === "DEACTIVATED" ? tall / 2 - 1 : 0; // two versions at once: one above the other
        g.fillRect(TITLES + x * wide, y * tall - top + 1 + (m.state === "RESOLVED" ? half : 0), Math.max(wide - gap, 1), tall - 2 - half);
      }
    });
    g.globalAlpha = 1;
    if (at) {
      g.strokeStyle = c.accent;
      g.lineWidth = 2;
      g.strokeRect(TITLES + at[0] * wide - 1, at[1] * tall - top, Math.max(wide, 3) + 1, tall);
    }
  }, [modules, bases, width, room, top, wide, tall, theme, at]);
  const cell = (x: number, y: number): [number, number] | null => {
    const column = Math.floor((x - TITLES) / wide);
    const row = Math.floor((y + top) / tall);
    return column >= 0 && column < bases.length && row >= 0 && row < modules.length ? [column, row] : null;
  };
  const say = (place: [number, number] | null): string => {
    if (!place) return "";
    const b = bases[place[0]]!;
    const name = modules[place[1]]!.name;
    const there = b.modules.filter((m) => m.name === name).map((m) => `${m.version} ${t(m.state as "BROKEN")}`).join(", ");
    return `${b.name}\n${name}: ${there || t("none")}`;
  };
  const keys = (e: KeyboardEvent): void => {
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key] as [number, number] | undefined;
    if (by) {
      e.preventDefault();
      e.stopPropagation();
      const [x, y] = at ?? [0, 0];
      const next: [number, number] = [Math.min(Math.max(x + by[0], 0), bases.length - 1), Math.min(Math.max(y + by[1], 0), modules.length - 1)];
      setAt(next);
      if (next[1] * tall < top || (next[1] + 1) * tall > top + room) box.current!.scrollTop = next[1] * tall - room / 2;
    } else if (e.key === "Enter" && at) model.go({ sel: `base:${bases[at[0]]!.name}` });
  };
  return (
    <div class="matrix" ref={box}>
      <canvas ref={ref} tabIndex={0} role="application" aria-label={t("matrixHint")} onKeyDown={keys} onBlur={() => setAt(null)}
        onPointerMove={(e) => showTip(say(cell(e.offsetX, e.offsetY)), e)} onPointerLeave={() => showTip("")}
        onClick={(e) => {
          const place = cell(e.offsetX, e.offsetY);
          if (place) model.go({ sel: `base:${bases[place[0]]!.name}` });
        }} />
      <div class="spacer" style={{ height: `${Math.max(modules.length * tall - room, 0)}px` }} />
      <span class="hidden" aria-live="polite">{say(at)}</span>
    </div>
  );
}
