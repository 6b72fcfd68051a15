import type { JSX } from "preact";
import type { ComponentRow, Health } from "../wire";
import { maybe, t } from "../app";
import { clock, count, lasting, size } from "../format";
import { compareNames } from "../lanes/look";
import type { Frame } from "../state/model";
import { Dot, Empty, Open, Section } from "../ui/bits";
import { ActionButtons } from "../ui/actions";

const healthOf = (c: ComponentRow): Health => (c.state === "running" ? "good" : c.state === "paused" ? "warn" : "bad");

export function Components({ frame }: { frame: Frame }): JSX.Element {
  const { world, time, place } = frame;
  const components = [...world.component.values()].filter((c) => c.name.includes(place.q)).sort((a, b) => compareNames(a.name, b.name));
  const faults = [...world.fault].filter(([key, f]) => `${key} ${f.text}`.includes(place.q)).sort((a, b) => a[1].since - b[1].since);
  const services = [...world.service].filter(([key]) => key.includes(place.q)).sort((a, b) => compareNames(a[0], b[0]));
  return (
    <div class="stack">
      <Section title={t("components")} aside={count(components.length)}>
        {components.length === 0 ? <Empty>{t("noComponents")}</Empty> : (
          <table>
            <thead><tr><th>{t("component")}</th><th>{t("state")}</th><th class="number">{t("started")}</th><th class="number">{t("process")}</th><th class="number">{t("memory")}</th><th class="rest">{t("message")}</th></tr></thead>
            <tbody>{components.map((c) => (
              <tr key={c.name}>
                <td><Open sel={`component:${c.name}`}>{c.name}</Open></td>
                <td class="nowrap"><Dot health={healthOf(c)} /> {maybe(c.state, c.state)}</td>
                <td class="number">{c.since ? t("ago", { d: lasting(Math.max(time - c.since, 0)) }) : ""}</td>
                <td class="number">{c.pid ? c.pid : ""}</td>
                <td class="number">{c.rss ? size(c.rss) : ""}</td>
                <td class="rest"><span>{[c.bases ? t("serves", { n: c.bases }) : "", c.message].filter((s) => s).join("; ")}</span></td>
              </tr>
            ))}</tbody>
          </table>
        )}
      </Section>
      <Section title={t("faults")} aside={count(faults.length)}>
        {faults.length === 0 ? <p class="calm">{t("noFaultsSet")}</p> : (
          <table>
            <thead><tr><th>{t("fault")}</th><th>{t("base")}</th><th class="number">{t("when")}</th><th class="number">{t("fired")}</th><th class="rest">{t("what")}</th></tr></thead>
            <tbody>{faults.map(([key, f]) => (
              <tr key={key}>
                <td><Open sel={`fault:${key}`}>{f.id}</Open></td>
                <td>{f.base ? <Open sel={`base:${f.base}`}>{f.base}</Open> : f.target}</td>
                <td class="number">{clock(f.since)}</td>
                <td class="number">{f.fired ? t("times", { n: f.fired }) : ""}</td>
                <td class="rest"><span>{f.text}</span></td>
              </tr>
            ))}</tbody>
          </table>
        )}
      </Section>
      {services.length > 0 && (
        <Section title={t("services")} aside={count(services.length)}>
          <table>
            <tbody>{services.map(([key, s]) => (
              <tr key={key}>
                <td><Open sel={`service:${key}`}>{s.name}</Open> <small>{s.namespace}</small></td>
                <td class="nowrap"><Dot health={s.total > 0 && s.ready === s.total ? "good" : s.ready > 0 ? "warn" : "bad"} /> {t("endpoints", { ready: s.ready, total: s.total })}</td>
              </tr>
            ))}</tbody>
          </table>
        </Section>
      )}
      {frame.live && <ActionButtons frame={frame} on="board" row={{}} title />}
    </div>
  );
}
