import { Fragment } from "preact";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Action, ActionParam, ActionResult, Problem } from "../wire";
import { maybe, t } from "../app";
import { offeredOn } from "../state/derive";
import type { Frame } from "../state/model";
import { Copy, Modal, Section } from "./bits";

type Given = Record<string, unknown>;

const titleOf = (a: Action): string => maybe(`a_${a.id}`, a.title);

// ActionButtons shows the available actions of a row. Each action asks for confirmation. Its result stays
// visible, even if the row is deleted.
export function ActionButtons({ frame, on, row, title }: { frame: Frame; on: string; row: object | undefined; title?: boolean }): JSX.Element | null {
  const [asked, setAsked] = useState<{ action: Action; row: object } | null>(null);
  const list = row ? (frame.board?.actions ?? []).filter((a) => offeredOn(a, on, row)) : [];
  if (list.length === 0 && !asked) return null;
  const inside = frame.live ? (
    <div class="actions">
      {list.map((a) => <button type="button" class={a.danger ? "danger" : ""} onClick={() => setAsked({ action: a, row: row! })}>{titleOf(a)}</button>)}
      {asked && <Ask {...asked} close={() => setAsked(null)} />}
    </div>
  ) : <p class="hint">{t("actionsPast")}</p>;
  return title ? <Section title={t("actions")}>{inside}</Section> : <Fragment><h3>{t("actions")}</h3>{inside}</Fragment>;
}

type Outcome = { at: "asking" } | { at: "doing" } | { at: "done"; result: ActionResult } | { at: "failed"; error: string };

// choicesOf returns the values from which the user selects a parameter; undefined if any text is allowed.
const choicesOf = (p: ActionParam, row: object): string[] | undefined =>
  p.choicesFrom ? ((row as Given)[p.choicesFrom] as { name: string }[]).map((o) => o.name) : p.choices;

function Ask({ action, row, close }: { action: Action; row: object; close: () => void }): JSX.Element {
  const params = action.params ?? [];
  const [values, setValues] = useState<Record<string, string>>(() => Object.fromEntries(params.map((p) => [p.name, p.from ? String((row as Given)[p.from] ?? "") : p.default ?? choicesOf(p, row)?.[0] ?? ""])));
  const [outcome, setOutcome] = useState<Outcome>({ at: "asking" });
  const run = async (): Promise<void> => {
    setOutcome({ at: "doing" });
    setOutcome(await act(action.id, values));
  };
  if (outcome.at === "done") {
    return (
      <Modal title={titleOf(action)} close={close}>
        <p role="status">{outcome.result.message}</p>
        {outcome.result.command && <Fragment><h3>{t("sameCommand")}</h3><Copy text={outcome.result.command} /></Fragment>}
        <div class="buttons"><button type="button" class="main" autofocus onClick={close}>{t("close")}</button></div>
      </Modal>
    );
  }
  return (
    <Modal title={titleOf(action)} close={close}>
      <form onSubmit={(e) => {
        e.preventDefault();
        void run();
      }}>
        {action.danger && <p class="warning">{t("danger")}</p>}
        {params.map((p) => (
          <label class="field">
            <span>{p.name}{p.optional && <small> {t("optional")}</small>}</span>
            {p.from ? <output>{values[p.name]}</output>
              : choicesOf(p, row) ? <select value={values[p.name]} onChange={(e) => setValues({ ...values, [p.name]: e.currentTarget.value })}>{choicesOf(p, row)!.map((c) => <option value={c}>{c}</option>)}</select>
                : <input inputMode={p.number ? "numeric" : "text"} pattern={p.number ? "[0-9]+" : undefined} required={!p.optional} value={values[p.name]} onInput={(e) => setValues({ ...values, [p.name]: e.currentTarget.value })} />}
            {p.hint && <small>{p.hint}</small>}
          </label>
        ))}
        {outcome.at === "failed" && <p role="alert" class="error">{t("failed", { error: outcome.error })}</p>}
        <div class="buttons">
          <button type="button" onClick={close}>{t("cancel")}</button>
          <button type="submit" class={action.danger ? "main danger" : "main"} disabled={outcome.at === "doing"}>{outcome.at === "doing" ? t("doing") : t("doIt")}</button>
        </div>
      </form>
    </Modal>
  );
}

async function act(id: string, values: Record<string, string>): Promise<Outcome> {
  try {
    const answer = await fetch(`api/actions/${encodeURIComponent(id)}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(values) });
    const body = (await answer.json().catch(() => ({}))) as ActionResult & Problem;
    return answer.ok ? { at: "done", result: body } : { at: "failed", error: body.error ?? `HTTP ${answer.status}` };
  } catch (err) {
    return { at: "failed", error: String(err) };
  }
}
