import type { JSX } from "preact";
import type { LogEntry, LogKind } from "../wire";
import { maybe, model, t } from "../app";
import { lasting, moment } from "../format";
import { matchesEntry } from "../state/derive";
import type { Frame } from "../state/model";
import { Dot, Empty, Open, Swatch } from "../ui/bits";
import { Virtual } from "../ui/virtual";

const KINDS: LogKind[] = ["command", "event", "module", "base", "node", "request", "fault", "component", "step", "action", "finding"];

export function Log({ frame }: { frame: Frame }): JSX.Element {
  const { log, time, place, live } = frame;
  const list = log.choose([place.q, place.base, place.module, place.version, place.bad, place.kinds].join("\n"), (e) => matchesEntry(e, place));
  const count = live ? list.length : log.until(time, list);
  const toggle = (kind: string): void => model.go({ kinds: place.kinds.includes(kind) ? place.kinds.filter((k) => k !== kind) : [...place.kinds, kind] });
  return (
    <div class="fill">
      <div class="key" role="group" aria-label={t("kinds")}>
        {KINDS.map((k) => <button type="button" class={place.kinds.includes(k) ? "chip chosen" : "chip"} aria-pressed={place.kinds.includes(k)} onClick={() => toggle(k)}>{t(`k_${k}`)}</button>)}
        <label class="chip"><input type="checkbox" checked={place.bad} onChange={() => model.go({ bad: !place.bad })} />{t("onlyBad")}</label>
        <small>{t("nEntries", { n: count })}</small>
      </div>
      {count === 0 ? <Empty>{t("noEntries")}</Empty> : (
        <Virtual count={count} row={(i) => list[count - 1 - i]!} height={26} label={t("log")} keyOf={(e) => e.id} grows
          head={[<th class="time">{t("when")}</th>, <th>{t("kind")}</th>, <th>{t("base")}</th>, <th>{t("about")}</th>, <th class="rest">{t("what")}</th>, <th class="number">{t("took")}</th>]}
          draw={(e) => entry(e, frame)} />
      )}
    </div>
  );
}

function entry(e: LogEntry, { versions }: Frame): JSX.Element[] {
  return [
    <td class="time">{moment(e.time)}</td>,
    <td class="nowrap">{e.bad ? <Dot health="bad" label={t("onlyBad")} /> : <Dot health="none" />} {t(`e_${e.kind}`)}</td>,
    <td class="nowrap">{e.base && <Open sel={`base:${e.base}`}>{e.base}</Open>}</td>,
    <td class="nowrap">{e.name} {e.module && <span class="version">{e.version && <Swatch n={versions.of(e.version)} />}{e.module}{e.version && `:${e.version}`}</span>}</td>,
    <td class="rest" title={e.text}><span>{e.code && <b class="badly">{e.code} </b>}{e.state && <b>{e.kind === "module" ? maybe(e.state, e.state) : e.state} </b>}{e.user && <b>{e.user}: </b>}{e.text ?? (e.kind === "command" && !e.code ? t("answered") : "")}</span></td>,
    <td class="number nowrap">{e.took !== undefined && lasting(e.took)}</td>,
  ];
}

