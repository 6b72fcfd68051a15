import type { ComponentChildren, JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { Health, StreamRow } from "../wire";
import { t } from "../app";
import { clock, count } from "../format";
import { matchesBase, spanOf, summaryOf, zonesOf } from "../state/derive";
import type { Zone } from "../state/derive";
import type { Frame } from "../state/model";
import type { Place } from "../state/url";
import { Dot, Empty, Goto, Open, Section, Swatch, useSize } from "../ui/bits";
import { Spark } from "../ui/spark";
import { Card, Mini } from "./base";
import { Progress } from "./workloads";

// CARDS is the maximum number of bases with full cards; beyond it, cards are small.
const CARDS = 18;

export function Overview({ frame, theme }: { frame: Frame; theme: string }): JSX.Element {
  const { world, place, history, time, versions } = frame;
  const zones = useMemo(
    () => zonesOf([...world.base.values()].filter((b) => matchesBase(b, place))),
    [world.base, place.q, place.zone, place.base, place.module, place.version, place.state],
  );
  const shown = zones.reduce((n, z) => n + z.bases.length, 0);
  const inUse = useMemo(() => {
    const seen = new Map<string, number>();
    for (const z of zones) for (const b of z.bases) for (const m of b.modules) seen.set(m.version, (seen.get(m.version) ?? 0) + 1);
    return [...seen].sort((a, b) => versions.of(a[0]) - versions.of(b[0]));
  }, [zones]);
  return (
    <div class="overview">
      <Summary frame={frame} />
      <div class="columns">
        <div class="wide">
          <div class="key" aria-label={t("versions")} role="group">
            {inUse.slice(0, 10).map(([v, n]) => (
              <Goto to={{ ...place, sel: "", version: place.version === v ? "" : v }} class={place.version === v ? "chip chosen" : "chip"}>
                <Swatch n={versions.of(v)} />{v || "–"} <small>{count(n)}</small>
              </Goto>
            ))}
            {inUse.length > 10 && <small>{t("andMore", { n: inUse.length - 10 })}</small>}
          </div>
          {world.base.size === 0 ? <Empty>{t("noBases")}</Empty> : shown === 0 && <Empty>{t("noneMatch")}</Empty>}
          {zones.map((z) => <ZoneBox key={z.name} zone={z} frame={frame} shown={shown} alone={zones.length === 1} />)}
        </div>
        <aside class="narrow" aria-label={t("findings")}>
          <Findings frame={frame} />
          <Rollouts frame={frame} />
          {[...world.stream].filter(([, s]) => !s.ended).length > 0 && (
            <Section title={<Goto to={{ view: "traffic" }}>{t("requests")}</Goto>}>
              {[...world.stream].filter(([, s]) => !s.ended).slice(0, 4).map(([key, s]) => (
                <Stream key={key} name={key} row={s} frame={frame} theme={theme} track={history.tracks.stream.get(key)!} time={time} />
              ))}
            </Section>
          )}
          <Latest frame={frame} />
        </aside>
      </div>
    </div>
  );
}

function Tile({ title, value, note, health, to }: { title: string; value: ComponentChildren; note: ComponentChildren; health: Health | "none"; to: Partial<Place> }): JSX.Element {
  return (
    <Goto to={to} class={`tile ${health}`}>
      <span class="title">{title}</span>
      <span class="value">{value}</span>
      <span class="note"><Dot health={health} /> {note}</span>
    </Goto>
  );
}

function Summary({ frame: { world } }: { frame: Frame }): JSX.Element {
  const s = useMemo(() => summaryOf(world), [world]);
  return (
    <div class="tiles">
      <Tile title={t("bases")} value={count(s.bases)} to={{ view: "overview", state: s.unwell ? "bad" : "" }}
        health={s.unwell ? (s.states.get("down") ? "bad" : "warn") : s.bases ? "good" : "none"} note={s.unwell ? t("nUnwell", { n: s.unwell }) : t("allRun")} />
      <Tile title={t("modulesServe")} value={count(s.modules)} to={{ view: "modules" }} health={s.broken ? "bad" : s.modules ? "good" : "none"} note={s.broken ? t("nBroken", { n: s.broken }) : t("noneBroken")} />
      <Tile title={t("rollouts")} value={count(s.rolling)} to={{ view: "workloads" }} health={s.stuck ? "bad" : s.rolling ? "busy" : "none"}
        note={s.stuck ? t("nStuck", { n: s.stuck }) : t("ofWorkloads", { n: s.workloads })} />
      <Tile title={t("requests")} value={t("perSecond", { n: Math.round(s.rate) })} to={{ view: "traffic" }} health={s.lostRate ? "bad" : s.lost ? "warn" : s.rate ? "good" : "none"} note={s.lost ? t("nLost", { n: s.lost }) : t("noneLost")} />
      <Tile title={t("faults")} value={count(s.faults)} to={{ view: "components" }} health={s.faults ? "warn" : "none"} note={s.faults ? t("nSet", { n: s.faults }) : t("noFaults")} />
      <Tile title={t("components")} value={count(world.component.size)} to={{ view: "components" }} health={s.down.length ? "bad" : world.component.size ? "good" : "none"}
        note={s.down.length ? s.down.slice(0, 2).join(", ") : t("allRun")} />
    </div>
  );
}

function ZoneBox({ zone, frame, shown, alone }: { zone: Zone; frame: Frame; shown: number; alone: boolean }): JSX.Element {
  const { history, versions } = frame;
  const bad = zone.bases.filter((b) => b.health !== "good").length;
  const title = zone.name || (alone ? t("bases") : t("noZone"));
  const tracks = history.tracks.base;
  return (
    <Section class="zone" title={title} aside={<span>{t("nBases", { n: zone.bases.length })}{bad > 0 && <b class="badly"> {t("nUnwell", { n: bad })}</b>}</span>}>
      {shown <= CARDS ? <ul class="cards">{zone.bases.map((b) => <Card key={b.name} row={b} track={tracks.get(b.name)} versions={versions} />)}</ul>
        : <ul class="minis">{zone.bases.map((b) => <Mini key={b.name} row={b} versions={versions} />)}</ul>}
    </Section>
  );
}

function Findings({ frame: { world } }: { frame: Frame }): JSX.Element {
  const zh = document.documentElement.lang === "zh";
  const list = [...world.finding].sort((a, b) => b[1].since - a[1].since);
  return (
    <Section title={t("findings")} aside={list.length || undefined} class="findings">
      <div aria-live="polite" aria-relevant="additions text">
        {list.length === 0 ? <p class="calm"><Dot health="good" /> {t("noFindings")}</p> : list.slice(0, 6).map(([key, f]) => (
          <div key={key} class="finding">
            <Open sel={`finding:${key}`}><b>{f.code}</b></Open>
            <p>{zh ? f.chinese : f.text}</p>
            <small>{t("since", { time: clock(f.since) })}</small>
          </div>
        ))}
        {list.length > 6 && <small>{t("andMore", { n: list.length - 6 })}</small>}
      </div>
      {world.notice.size > 0 && <div class="notices"><h3>{t("notices")}</h3><ul>{[...world.notice].map(([key, n]) => <li key={key}>{n.text}</li>)}</ul></div>}
    </Section>
  );
}

function Rollouts({ frame: { world } }: { frame: Frame }): JSX.Element | null {
  const list = [...world.workload].filter(([, w]) => !["ready", "waiting"].includes(w.state) || w.ready < w.desired).sort((a, b) => (a[0] < b[0] ? -1 : 1));
  if (list.length === 0) return null;
  return (
    <Section title={<Goto to={{ view: "workloads" }}>{t("rollouts")}</Goto>} aside={list.length}>
      <ul class="plain">{list.slice(0, 6).map(([key, w]) => <li key={key}><Progress sel={`workload:${key}`} row={w} /></li>)}</ul>
      {list.length > 6 && <small>{t("andMore", { n: list.length - 6 })}</small>}
    </Section>
  );
}

export function Stream({ name, row, frame, theme, track, time }: { name: string; row: StreamRow; frame: Frame; theme: string; track: NonNullable<ReturnType<Frame["history"]["tracks"]["stream"]["get"]>>; time: number }): JSX.Element {
  const [box, width] = useSize<HTMLDivElement>();
  return (
    <div class="stream" ref={box}>
      <Open sel={`stream:${name}`}>{row.name}</Open>
      <span class="numbers">{t("perSecond", { n: Math.round(row.rate) })}{row.lost > 0 && <b class="badly"> {t("nLost", { n: row.lost })}</b>}</span>
      <Spark track={track} time={time} span={spanOf(frame.board, 120e3)} width={Math.max(width, 40)} height={34} versions={frame.versions} theme={theme} label={`${row.name}: ${t("perSecond", { n: Math.round(row.rate) })}, ${t("nLost", { n: row.lost })}`} />
    </div>
  );
}

function Latest({ frame: { log, time } }: { frame: Frame }): JSX.Element {
  const list = [];
  for (let i = log.until(time) - 1; i >= 0 && list.length < 7; i--) if (log.entries[i]!.bad) list.push(log.entries[i]!);
  return (
    <Section title={<Goto to={{ view: "log", bad: true }}>{t("latest")}</Goto>}>
      {list.length === 0 ? <p class="calm">{t("nothingWrong")}</p> : (
        <ul class="plain latest">
          {list.map((e) => (
            <li key={e.id}>
              <time>{clock(e.time)}</time>
              <span>{e.base && <Open sel={`base:${e.base}`}>{e.base}</Open>} {[e.name, e.module && `${e.module}:${e.version ?? ""}`, e.code || e.state].filter((s) => s).join(" ")}</span>
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}
