import type { JSX } from "preact";
import type { StreamRow } from "../wire";
import { maybe, t } from "../app";
import { clock, count, lasting } from "../format";
import { spanOf } from "../state/derive";
import type { Track } from "../state/history";
import type { Frame } from "../state/model";
import { Dot, Empty, Open, Section, Swatch, useSize } from "../ui/bits";
import { Spark } from "../ui/spark";

// SPAN is the visible duration of a stream that is not from a finished run.
const SPAN = 5 * 60e3;

export function Traffic({ frame, theme }: { frame: Frame; theme: string }): JSX.Element {
  const { world, place, history } = frame;
  const list = [...world.stream].filter(([key]) => key.includes(place.q)).sort((a, b) => Number(a[1].ended ?? 0) - Number(b[1].ended ?? 0) || (a[0] < b[0] ? -1 : 1));
  if (list.length === 0) return <Empty>{world.stream.size > 0 ? t("noneMatch") : t("noStreams")}</Empty>;
  return <div>{list.map(([key, s]) => <Stream key={key} name={key} row={s} track={history.tracks.stream.get(key)!} frame={frame} theme={theme} />)}</div>;
}

function Stream({ name, row, track, frame, theme }: { name: string; row: StreamRow; track: Track<StreamRow>; frame: Frame; theme: string }): JSX.Element {
  const [box, width] = useSize<HTMLDivElement>();
  const span = spanOf(frame.board, SPAN);
  const results = Object.entries(row.results ?? {}).sort((a, b) => b[1] - a[1]);
  const versions = Object.entries(row.versions ?? {}).filter(([, n]) => n > 0);
  return (
    <Section title={<Open sel={`stream:${name}`}>{row.name}</Open>} aside={<span>{maybe(`route_${row.route ?? ""}`, row.route ?? "")}{row.ended ? `, ${t("ended_stream")}` : ""}</span>} class="trafficStream">
      <div ref={box}>{width > 0 && <Spark track={track} time={frame.time} span={span} width={width} height={110} versions={frame.versions} theme={theme}
        label={`${row.name}: ${t("perSecond", { n: Math.round(row.rate) })}, ${t("nLost", { n: row.lost })}`} />}</div>
      <div class="axis" aria-hidden="true"><small>{clock(frame.time - span)}</small><small>{clock(frame.time)}</small></div>
      <div class="figures">
        <span><small>{t("rate")}</small><b>{t("perSecond", { n: Math.round(row.rate) })}</b></span>
        <span><small>{t("sent")}</small><b>{count(row.sent)}</b></span>
        <span class={row.lost ? "badly" : ""}><small>{t("lost")}</small><b>{row.lost > 0 && <Dot health="bad" />} {count(row.lost)}</b></span>
        {row.p50 !== undefined && <span><small>p50</small><b>{lasting(row.p50)}</b></span>}
        {row.p99 !== undefined && <span><small>p99</small><b>{lasting(row.p99)}</b></span>}
        {versions.length > 0 && <span><small>{t("versions")}</small><b>{versions.map(([v, n]) => <span class="version"><Swatch n={frame.versions.of(v)} />{v} <small>{t("perSecond", { n: Math.round(n) })}</small></span>)}</b></span>}
        {results.length > 0 && <span><small>{t("results")}</small><b>{results.map(([r, n]) => <span class="version">{r} <small>{count(n)}</small></span>)}</b></span>}
      </div>
    </Section>
  );
}
