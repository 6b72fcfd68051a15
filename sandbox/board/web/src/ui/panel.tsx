import { Fragment } from "preact";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { PodRow, Problem, Why, WorkloadRow } from "../wire";
import { maybe, model, t } from "../app";
import { clock, count, lasting, moment, size } from "../format";
import { compareNames } from "../lanes/look";
import { refs } from "../state/derive";
import type { Frame } from "../state/model";
import { Metaspace, lookOfModule, stateWord } from "../views/base";
import { Batches, Progress } from "../views/workloads";
import { ActionButtons } from "./actions";
import { Copy, Dot, Fields, Goto, Open, Swatch } from "./bits";
import { commandsFor, whyOf } from "./commands";

// Panel shows the details of an object, the explanation of its state, and equivalent commands.
export function Panel({ frame }: { frame: Frame }): JSX.Element | null {
  const { sel } = frame.place;
  const at = sel.indexOf(":");
  const kind = sel.slice(0, at);
  const key = sel.slice(at + 1);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus({ preventScroll: true }), [sel]);
  if (!sel) return null;
  const row = (frame.world as unknown as Record<string, ReadonlyMap<string, object>>)[kind]?.get(key);
  const question = whyOf(kind, key, frame.world);
  return (
    <aside class="panel" aria-label={t("details")} key={sel}>
      <header>
        <h2 ref={heading} tabIndex={-1}><small>{maybe(kind, kind)}</small> {nameOf(kind, key, row)}</h2>
        <button type="button" class="icon" aria-label={t("close")} title={`${t("close")} (Esc)`} onClick={() => model.go({ sel: "" })}>×</button>
      </header>
      <div class="inside">
        {row === undefined && kind !== "module" && <p class="hint">{t("goneNow")}</p>}
        <Details kind={kind} name={key} frame={frame} />
        {question && frame.board?.canWhy && <Reason question={question.toString()} live={frame.live} row={row} />}
        {!(question && frame.board?.canWhy) && <Commands list={commandsFor(kind, key, frame.world, frame.board)} />}
        <ActionButtons key={sel} frame={frame} on={kind} row={row} />
      </div>
    </aside>
  );
}

function nameOf(kind: string, key: string, row: object | undefined): string {
  const named = row as { name?: string; code?: string; id?: string } | undefined;
  return kind === "finding" ? named?.code ?? key : named?.name ?? named?.id ?? key;
}

function Commands({ list }: { list: readonly string[] }): JSX.Element | null {
  if (list.length === 0) return null;
  return <Fragment><h3>{t("commands")}</h3>{list.map((c) => <Copy key={c} text={c} />)}</Fragment>;
}

type Answer = { why: Why } | { error: string } | null;

async function ask(question: string, signal: AbortSignal): Promise<Answer> {
  try {
    const r = await fetch(`api/why?${question}`, { signal });
    const body = (await r.json()) as Why & Problem;
    return r.ok ? { why: body } : { error: body.error ?? `HTTP ${r.status}` };
  } catch (err) {
    return { error: String(err) };
  }
}

// AGAIN is how long an explanation is kept while its row changes, in milliseconds.
const AGAIN = 2000;

function Reason({ question, live, row }: { question: string; live: boolean; row: object | undefined }): JSX.Element {
  const [answer, setAnswer] = useState<Answer>(null);
  const next = useRef(0);
  const gone = useRef(new AbortController());
  useEffect(() => () => gone.current.abort(), []);
  useEffect(() => {
    const timer = setTimeout(() => {
      next.current = Date.now() + AGAIN;
      void ask(question, gone.current.signal).then((a) => gone.current.signal.aborted || setAnswer(a));
    }, Math.max(next.current - Date.now(), 0));
    return () => clearTimeout(timer);
  }, [live && row]);
  return (
    <Fragment>
      <h3>{t("why")}</h3>
      {!live && <p class="hint">{t("whyNow")}</p>}
      <div aria-live="polite" aria-busy={answer === null}>
        {answer === null ? <p class="hint">{t("asking")}</p> : "error" in answer ? <p class="error">{t("whyFails", { error: answer.error })}</p> : <Because why={answer.why} />}
      </div>
    </Fragment>
  );
}

function Because({ why }: { why: Why }): JSX.Element {
  return (
    <Fragment>
      <p class="cause"><Dot health={why.ready ? "good" : "bad"} /> <b>{why.reason}</b> {why.cause}</p>
      {why.advice && <p class="advice"><b>{t("advice")}:</b> {why.advice}</p>}
      {why.evidence.length > 0 && (
        <details open>
          <summary>{t("evidence")}</summary>
          <ul class="evidence">{why.evidence.map((e) => <li><small>{e.about}{e.at ? `, ${clock(e.at)}` : ""}</small>{e.text}</li>)}</ul>
        </details>
      )}
      <Commands list={why.commands} />
    </Fragment>
  );
}

const ago = (frame: Frame, time: number | undefined): ComponentChildren => (time ? `${clock(time)}, ${t("ago", { d: lasting(Math.max(frame.time - time, 0)) })}` : undefined);

function Details({ kind, name, frame }: { kind: string; name: string; frame: Frame }): JSX.Element | null {
  const { world } = frame;
  const bases = (list: readonly string[]): ComponentChildren => list.length > 0 && <span class="names">{list.slice(0, 50).map((b) => <Open sel={`base:${b}`}>{b}</Open>)}{list.length > 50 && <small>{t("andMore", { n: list.length - 50 })}</small>}</span>;
  switch (kind) {
    case "base":
      return <BaseDetails name={name} frame={frame} />;
    case "pod": {
      const p = world.pod.get(name);
      return p ? <Fields list={[
        [t("state"), <span><Dot health={p.ready && !p.deleting ? "good" : "warn"} /> {p.phase}{p.deleting ? `, ${t("l_terminating")}` : p.ready ? `, ${t("ready")}` : ""}</span>],
        [t("reason"), p.reason], [t("modules"), refs(p.modules)], [t("base"), p.base && <Open sel={`base:${p.base}`}>{p.base}</Open>], [t("node"), p.node],
        [t("workload"), p.workload && <Open sel={`workload:${p.workload}`}>{p.workload}</Open>], [t("namespace"), p.namespace], [t("created"), ago(frame, p.created)],
      ]} /> : null;
    }
    case "workload": {
      const w = world.workload.get(name);
      return w ? <WorkloadDetails name={name} row={w} frame={frame} /> : null;
    }
    case "component": {
      const c = world.component.get(name);
      return c ? <Fields list={[[t("state"), <span><Dot health={c.state === "running" ? "good" : c.state === "paused" ? "warn" : "bad"} /> {maybe(c.state, c.state)}</span>], [t("started"), ago(frame, c.since)], [t("message"), c.message], [t("process"), c.pid], [t("memory"), c.rss && size(c.rss)], [t("bases"), c.bases]]} /> : null;
    }
    case "fault": {
      const f = world.fault.get(name);
      return f ? <Fields list={[[t("what"), f.text], [t("base"), f.base && <Open sel={`base:${f.base}`}>{f.base}</Open>], [t("when"), ago(frame, f.since)], [t("fired"), f.fired ? t("times", { n: f.fired }) : ""]]} /> : null;
    }
    case "service": {
      const s = world.service.get(name);
      return s ? <Fields list={[[t("state"), t("endpoints", { ready: s.ready, total: s.total })], [t("namespace"), s.namespace], [t("bases"), bases(s.bases ?? [])]]} /> : null;
    }
    case "stream": {
      const s = world.stream.get(name);
      return s ? <Fields list={[[t("route"), maybe(`route_${s.route ?? ""}`, s.route ?? "")], [t("rate"), t("perSecond", { n: Math.round(s.rate) })], [t("sent"), count(s.sent)], [t("lost"), count(s.lost)], ["p50, p99", s.p50 !== undefined ? `${lasting(s.p50)}, ${lasting(s.p99 ?? 0)}` : ""],
        [t("results"), Object.entries(s.results ?? {}).map(([r, n]) => `${r} ${count(n)}`).join(", ")]]} /> : null;
    }
    case "module":
      return <ModuleDetails name={name} frame={frame} />;
    case "finding": {
      const f = world.finding.get(name);
      const zh = document.documentElement.lang === "zh";
      return f ? <Fragment>
        <p class="cause">{zh ? f.chinese : f.text}</p>
        {f.advice && <p class="advice"><b>{t("advice")}:</b> {zh ? f.adviceChinese : f.advice}</p>}
        <Fields list={[[t("when"), ago(frame, f.since)], [t("bases"), bases(f.bases ?? [])], [t("workloads"), f.workloads?.length ? <span class="names">{f.workloads.map((w) => <Open sel={`workload:${w}`}>{w}</Open>)}</span> : ""],
          [t("pods"), f.pods?.length ? <span class="names">{f.pods.map((p) => <Open sel={`pod:${p}`}>{world.pod.get(p)?.name ?? p}</Open>)}</span> : ""]]} />
      </Fragment> : null;
    }
  }
  return null;
}

function WorkloadDetails({ name, row: w, frame }: { name: string; row: WorkloadRow; frame: Frame }): JSX.Element {
  const { world } = frame;
  const pods = [...world.pod].filter(([, p]) => p.workload === name);
  const revisions = [...world.revision.values()].filter((r) => r.workload === name).sort((a, b) => b.number - a.number);
  return (
    <Fragment>
      <Progress sel={`workload:${name}`} row={w} />
      <Batches row={w} />
      <Fields list={[[t("state"), t(`w_${w.state}`)], [t("reason"), w.stuck], [t("kind"), w.kind], [t("namespace"), w.namespace], [t("modules"), refs(w.modules)],
        [t("desired"), count(w.desired)], [t("updated"), count(w.updated)], [t("ready"), count(w.ready)], [t("available"), count(w.available)], [t("unavailable"), count(w.unavailable ?? 0)], [t("total"), count(w.total)],
        [t("strategy"), w.strategy], [t("revision"), w.revision]]} />
      {revisions.length > 0 && (
        <Fragment>
          <h3>{t("revisions")}</h3>
          <ul class="evidence">{revisions.map((r) => <li><small>{r.number}{r.number === w.revision ? `, ${t("present")}` : ""}, {clock(r.created)}</small>{refs(r.modules)}, {t("nPods", { n: pods.filter(([, p]) => p.revision === r.hash).length })}</li>)}</ul>
        </Fragment>
      )}
      <Pods list={pods} />
    </Fragment>
  );
}

function BaseDetails({ name, frame }: { name: string; frame: Frame }): JSX.Element | null {
  const { world, history, versions, log, time } = frame;
  const b = world.base.get(name);
  if (!b) return null;
  const pods = [...world.pod].filter(([, p]) => p.base === name);
  const faults = [...world.fault].filter(([, f]) => f.base === name);
  const commands = log.of(name).filter((e) => e.kind === "command" && e.time <= time).slice(-6).reverse();
  return (
    <Fragment>
      <Fields list={[
        [t("state"), <span><Dot health={b.health} /> {stateWord(b)}{b.reason ? `: ${b.reason}` : ""}</span>],
        [t("metaspace"), b.metaspaceMax ? <Fragment><Metaspace row={b} track={history.tracks.base.get(name)} /> <small>{t("used", { used: size(b.metaspaceUsed ?? 0), max: size(b.metaspaceMax) })}</small></Fragment> : ""],
        [t("releasesLeft"), b.metaspaceMax && (b.releasesLeft === "unlimited" ? t("unlimited") : b.releasesLeft ?? t("unknown"))], [t("health"), b.actuator],
        [t("application"), [b.baseName, b.version].filter((s) => s).join(" ")], [t("zone"), b.zone],
        [t("node"), b.node ? `${b.node}, ${b.nodeState ?? ""}${b.cordoned ? `, ${t("cordoned")}` : ""}` : t("none")],
        [t("controller"), b.controller], [t("address"), [b.ip, b.tunnel].filter((s) => s).join(", ")], [t("identity"), b.identity], [t("started"), ago(frame, b.started)],
        [t("faults"), faults.length > 0 && <span class="names">{faults.map(([key, f]) => <Open sel={`fault:${key}`}>{f.text}</Open>)}</span>],
      ]} />
      <p class="links"><Goto to={{ view: "lanes", base: name }}>{t("laneOfBase")}</Goto><Goto to={{ view: "log", base: name }}>{t("logOfBase")}</Goto></p>
      <h3>{t("modules")}</h3>
      {b.modules.length === 0 ? <p class="hint">{t("none")}</p> : (
        <table><tbody>{b.modules.map((m) => (
          <tr key={`${m.name}:${m.version}`}>
            <td><span class={`module ${lookOfModule(m.state)}`}><Swatch n={versions.of(m.version)} /><Open sel={`module:${m.name}`}>{m.name}</Open></span></td>
            <td>{m.version}</td><td>{maybe(m.state, m.state)}{m.own ? `, ${t("own")}` : ""}</td>
          </tr>
        ))}</tbody></table>
      )}
      <Pods list={pods} />
      {commands.length > 0 && (
        <Fragment>
          <h3>{t("k_command")}</h3>
          <ul class="plain commandsOf">{commands.map((e) => <li key={e.id}><time>{moment(e.time)}</time> <Dot health={e.bad || e.code ? "bad" : "good"} /> {e.name} {e.module && `${e.module}:${e.version ?? ""}`} <small>{e.code || t("answered")} {e.took !== undefined && lasting(e.took)}</small></li>)}</ul>
        </Fragment>
      )}
    </Fragment>
  );
}

function Pods({ list }: { list: readonly (readonly [string, PodRow])[] }): JSX.Element | null {
  if (list.length === 0) return null;
  return (
    <Fragment>
      <h3>{t("pods")} <small>{count(list.length)}</small></h3>
      <table><tbody>{list.slice(0, 30).map(([uid, p]) => (
        <tr key={uid}>
          <td class="breaks"><Dot health={p.ready && !p.deleting ? "good" : p.deleting ? "none" : "warn"} /> <Open sel={`pod:${uid}`}>{p.name}</Open></td>
          <td>{t(`p_${p.state}`)} {p.reason && <small>{p.reason}</small>}</td>
        </tr>
      ))}</tbody></table>
      {list.length > 30 && <small>{t("andMore", { n: list.length - 30 })}</small>}
    </Fragment>
  );
}

function ModuleDetails({ name, frame }: { name: string; frame: Frame }): JSX.Element {
  const { world, versions } = frame;
  const on = [...world.base.values()].flatMap((b) => b.modules.filter((m) => m.name === name).map((m) => ({ b, m }))).sort((x, y) => compareNames(x.b.name, y.b.name));
  return (
    <Fragment>
      <p class="links"><Goto to={{ view: "overview", module: name }}>{t("bases")}</Goto><Goto to={{ view: "lanes", module: name }}>{t("lanes")}</Goto><Goto to={{ view: "log", module: name }}>{t("log")}</Goto></p>
      <table><tbody>{on.slice(0, 60).map(({ b, m }) => (
        <tr key={`${b.name}:${m.version}`}>
          <td><Open sel={`base:${b.name}`}>{b.name}</Open></td>
          <td><span class={`module ${lookOfModule(m.state)}`}><Swatch n={versions.of(m.version)} />{m.version}</span></td><td>{maybe(m.state, m.state)}</td>
        </tr>
      ))}</tbody></table>
      {on.length > 60 && <small>{t("andMore", { n: on.length - 60 })}</small>}
    </Fragment>
  );
}
