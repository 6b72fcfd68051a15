import { Fragment } from "preact";
import type { JSX } from "preact";
import { t } from "../app";
import { Modal } from "./bits";

const KEYS = [
  [["1", "…", "7"], "s_views"], [["/"], "s_filter"], [["Space"], "s_play"], [["←", "→"], "s_step"], [["[", "]"], "s_bad"],
  [["Home", "End"], "s_ends"], [[",", "."], "s_speed"], [["Esc"], "s_close"], [["?"], "s_help"],
] as const;

// Help lists the keyboard shortcuts.
export function Help({ close }: { close: () => void }): JSX.Element {
  return (
    <Modal title={t("help")} close={close}>
      <dl class="keys">{KEYS.map(([keys, text]) => <Fragment><dt>{keys.map((k) => (k === "…" ? <span>…</span> : <kbd>{k}</kbd>))}</dt><dd>{t(text)}</dd></Fragment>)}</dl>
      <div class="buttons"><button type="button" class="main" autofocus onClick={close}>{t("close")}</button></div>
    </Modal>
  );
}
