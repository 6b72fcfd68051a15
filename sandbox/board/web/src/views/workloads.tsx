import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { Health, WorkloadRow } from "../wire";
import { t } from "../app";
import { count } from "../format";
import { compareNames } from "../lanes/look";
import { refs } from "../state/derive";
import type { Frame } from "../state/model";
import { Bar, Dot, Empty, Open, Section } from "../ui/bits";
import { Virtual } from "../ui/virtual";

const HEALTH: Record<WorkloadRow["state"], Health> = { stuck: "bad", paused: "warn", rolling: "busy", ready: "good", waiting: "warn" };

function parts(w: WorkloadRow): { parts: { n: number; look: string; label: string }[]; whole: number; label: string } {
  const whole = Math.max(w.desired, w.updated, w.ready);
  const ready = Math.min(w.updated, w.ready);
  return {
    parts: [
      { n: ready, look: "good", label: t("updated") },
      { n: w.updated - ready, look: "busy", label: t("updated") },
      { n: Math.min(w.ready, whole) - ready, look: "older", label: t("ready") },
    ],
    whole,
    label: `${t("updated")} ${w.updated}, ${t("ready")} ${w.ready}, ${t("desired")} ${w.desired}`,
  };
}

// Progress shows a workload in two lines.
export function Progress({ sel, row }: { sel: string; row: WorkloadRow }): JSX.Element {
  const { state } = row;
  return (
    <div class="progress">
      <span class="line"><Dot health={HEALTH[state]} label={t(`w_${state}`)} /><Open sel={sel}>{row.name}</Open><span class="to">{row.modules.map((m) => m.version).join(", ")}</span><span class="numbers">{row.updated}/{row.desired}</span></span>
      <Bar {...parts(row)} />
    </div>
  );
}

// Batches shows the Pods that the partition of a StatefulSet releases, and those that it holds back.
export function Batches({ row: w }: { row: WorkloadRow }): JSX.Element | null {
  const held = Math.min(w.partition ?? 0, w.desired);
  if (held === 0) return null;
  const through = w.desired - held;
  const list = [
    { title: t("batch", { from: held, to: w.desired - 1 }), done: Math.min(w.updated, through), total: through, word: "" },
    { title: t("batch", { from: 0, to: held - 1 }), done: Math.max(w.updated - through, 0), total: held, word: t("waitsApproval") },
  ];
  return (
    <ol class="batches">
      {list.filter((b) => b.total > 0).map((b) => (
        <li class={b.word ? "" : "current"} style={{ flexGrow: String(b.total) }}>
          <span class="line"><span>{b.title}</span><span class="numbers">{b.done}/{b.total}</span></span>
          <Bar parts={[{ n: b.done, look: "good", label: "" }]} whole={b.total} label={`${b.title}: ${b.done}/${b.total}`} />
          {b.done < b.total && b.word && <small>{b.word}</small>}
        </li>
      ))}
    </ol>
  );
}

export function Workloads({ frame }: { frame: Frame }): JSX.Element {
  const { world, place } = frame;
  const rows = useMemo(() => {
    const q = place.q.toLowerCase();
    return [...world.workload].filter(([key, w]) => (!q || key.includes(q) || refs(w.modules).includes(q)) && (!place.module || w.modules.some((m) => m.name === place.module)) && (!place.state || w.state === place.state))
      .sort((a, b) => Number(a[1].state === "ready") - Number(b[1].state === "ready") || compareNames(a[0], b[0]));
  }, [world.workload, place.q, place.module, place.state]);
  return (
    <div class="fill">
      <Section title={t("workloads")} aside={count(rows.length)} class="grow">
        {rows.length === 0 ? <Empty>{world.workload.size === 0 ? t("noWorkloads") : t("noneMatch")}</Empty> : (
          <Virtual count={rows.length} row={(i) => rows[i]!} height={32} label={t("workloads")} keyOf={(r) => r[0]}
            head={[<th>{t("workload")}</th>, <th>{t("state")}</th>, <th class="track">{t("progress")}</th>, <th class="number">{t("updated")}</th>, <th class="number">{t("ready")}</th>, <th class="number">{t("unavailable")}</th>, <th class="number">{t("desired")}</th>, <th>{t("strategy")}</th>, <th>{t("modules")}</th>, <th>{t("namespace")}</th>]}
            draw={([key, w]) => {
              const { state } = w;
              return [
                <td><Open sel={`workload:${key}`}>{w.name}</Open> <small>{w.kind}{w.peer ? `, ${t("peer")}` : ""}</small></td>,
                <td class="nowrap"><Dot health={HEALTH[state]} /> {t(`w_${state}`)}</td>,
                <td class="track"><Bar {...parts(w)} /></td>,
                <td class="number">{count(w.updated)}</td>, <td class="number">{count(w.ready)}</td>, <td class="number">{count(w.unavailable ?? 0)}</td>, <td class="number">{count(w.desired)}</td>, <td class="nowrap">{w.strategy}</td>,
                <td>{refs(w.modules)}</td>, <td>{w.namespace}</td>,
              ];
            }} />
        )}
      </Section>
    </div>
  );
}
