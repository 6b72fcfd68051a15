import type { JSX } from "preact";
import type { BaseRow } from "../wire";
import { memo, model, t } from "../app";
import { percent, size } from "../format";
import type { VersionNumbers } from "../lanes/look";
import { healthWord, trendOf } from "../state/derive";
import type { Track } from "../state/history";
import { Dot, Swatch } from "../ui/bits";

// MOST_MODULES is the maximum number of modules in a card.
const MOST_MODULES = 6;

// lookOfModule is the class of a module's state.
export const lookOfModule = (state: string): string => (state === "ACTIVATED" ? "" : state === "BROKEN" ? "broken" : state === "RESOLVED" ? "installing" : "inactive");

// stateWord returns the state of a base as a word.
export const stateWord = (b: BaseRow): string => (t(b.problem ?? b.state));

// isFilling reports whether releases leave metaspace behind on a base.
const isFilling = (b: BaseRow): boolean => b.releasesLeft !== undefined && b.releasesLeft !== "unlimited";

export function Metaspace({ row, track, word }: { row: BaseRow; track?: Track<BaseRow> | undefined; word?: boolean }): JSX.Element | null {
  const trend = trendOf(row, track);
  if (!trend) return null;
  const full = trend.share > 0.9 ? "bad" : trend.share > 0.75 ? "warn" : "";
  const arrow = trend.change > 0.02 ? "↗" : trend.change < -0.02 ? "↘" : "→";
  const label = `${t("metaspace")}: ${t("used", { used: size(row.metaspaceUsed ?? 0), max: size(row.metaspaceMax ?? 0) })}${trend.change > 0.02 ? `, ${t("rises")}` : trend.change < -0.02 ? `, ${t("falls")}` : ""}`;
  return (
    <span class="metaspace" title={label}>
      {word && <span class="word">{t("metaspace")}</span>}
      <span class="meter" role="img" aria-label={label}><span class={full} style={{ width: `${Math.min(trend.share, 1) * 100}%` }} /></span>
      <span class="share" aria-hidden="true">{percent(trend.share)} {arrow}</span>
      {isFilling(row) && <b class="leak" title={t("releasesLeftHint")}>{t("nReleasesLeft", { n: Number(row.releasesLeft) })}</b>}
    </span>
  );
}

// Card is a base with its modules by name.
export const Card = memo(({ row, track, versions }: { row: BaseRow; track: Track<BaseRow> | undefined; versions: VersionNumbers }) => {
  const { health } = row;
  return (
    <li>
      <button type="button" class={`card ${health}`} onClick={() => model.go({ sel: `base:${row.name}` })}>
        <span class="head"><Dot health={health} /><b>{row.name}</b>{(health !== "good" || healthWord(row)) && <span class="word">{[health !== "good" && stateWord(row), healthWord(row)].filter((s) => s).join(", ")}</span>}</span>
        <Metaspace row={row} track={track} />
        <span class="modules">
          {row.modules.slice(0, MOST_MODULES).map((m) => (
            <span key={`${m.name}:${m.version}`} class={`module ${lookOfModule(m.state)}`}>
              <Swatch n={versions.of(m.version)} /><span class="name">{m.name}</span><span class="version">{m.version}</span>
              {m.state !== "ACTIVATED" && <span class="hidden">{t(m.state as "BROKEN")}</span>}
            </span>
          ))}
          {row.modules.length > MOST_MODULES && <small>{t("andMore", { n: row.modules.length - MOST_MODULES })}</small>}
          {row.modules.length === 0 && <small>{t("none")}</small>}
        </span>
      </button>
    </li>
  );
});

// Mini is a base by its name, with the colours of its versions.
export const Mini = memo(({ row, versions }: { row: BaseRow; versions: VersionNumbers }) => {
  const { health } = row;
  const share = (row.metaspaceUsed ?? 0) / (row.metaspaceMax || Infinity);
  const label = `${row.name}: ${[stateWord(row), healthWord(row)].filter((s) => s).join(", ")}; ${row.modules.map((m) => `${m.name}:${m.version}`).join(", ")}`;
  return (
    <li>
      <button type="button" class={`mini ${health}`} aria-label={label} title={label} onClick={() => model.go({ sel: `base:${row.name}` })}>
        <span class="head"><Dot health={health} /><span class="name">{row.name}</span>{isFilling(row) && <b class="leak" title={t("releasesLeftHint")}>{row.releasesLeft}</b>}</span>
        <span class="strip">{row.modules.slice(0, 24).map((m) => <span key={`${m.name}:${m.version}`} class={`v${versions.of(m.version) % 8} ${lookOfModule(m.state)}`} />)}</span>
        <span class="meter"><span class={share > 0.9 ? "bad" : share > 0.75 ? "warn" : ""} style={{ width: `${Math.min(share, 1) * 100}%` }} /></span>
      </button>
    </li>
  );
});
