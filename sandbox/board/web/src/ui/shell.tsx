import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { chooseLanguage, chooseTheme, model, t } from "../app";
import { clock } from "../format";
import { login } from "../state/feed";
import type { Frame } from "../state/model";
import { home, views } from "../state/url";
import type { Place } from "../state/url";
import { Copy, Goto } from "./bits";

// Head is the page header: title, views, filter and display options.
export function Head({ frame, theme, help }: { frame: Frame; theme: string; help: () => void }): JSX.Element {
  const { board, place, access, live, world } = frame;
  const state = access !== "live" ? (access === "connecting" ? "connecting" : "lostShort") : board?.ended ? "ended" : live ? "live" : "pastShown";
  const look = { connecting: "busy", lostShort: "bad", ended: "none", live: "good", pastShown: "accent" }[state];
  return (
    <header class="top">
      <a class="skip" href="#main" onClick={(e) => {
        e.preventDefault();
        document.getElementById("main")?.focus();
      }}>{t("skip")}</a>
      <h1><span class="product">koupsandbox</span> <b title={board?.title}>{board?.title ?? t("board")}</b>{board && <small>{t(`source_${board.source}`)}</small>}</h1>
      <span class={`status ${look}`} role="status">{t(state)}</span>
      <nav aria-label={t("views")}>
        {views.map((v, i) => (
          <Goto to={{ view: v }} current={place.view === v} class={place.view === v ? "tab current" : "tab"}>
            <span title={String(i + 1)}>{t(v)}</span>
            {v === "overview" && world.finding.size > 0 && <span class="badge" aria-label={`${t("findings")}: ${world.finding.size}`}>{world.finding.size}</span>}
          </Goto>
        ))}
      </nav>
      <Search place={place} />
      <div class="tools">
        {board && !board.actions?.length && board.source !== "report" && <span class="looks" title={t("onlyLooksHint")}>{t("onlyLooks")}</span>}
        <button type="button" title={t("languageHint")} lang={document.documentElement.lang === "zh" ? "en" : "zh"} onClick={() => chooseLanguage(document.documentElement.lang === "zh" ? "en" : "zh")}>{t("language")}</button>
        <button type="button" class="icon" aria-label={t("theme")} title={t("theme")} onClick={() => chooseTheme(theme === "dark" ? "light" : "dark")}>{theme === "dark" ? "☀" : "☾"}</button>
        <button type="button" class="icon" aria-label={t("help")} title={`${t("help")} (?)`} onClick={help}>?</button>
      </div>
    </header>
  );
}

function Search({ place }: { place: Place }): JSX.Element {
  return (
    <label class="search">
      <span class="hidden">{t("filter")}</span>
      <input id="filter" type="search" placeholder={`${t("filter")}: ${t("filterHint")}`} value={place.q} onInput={(e) => model.go({ q: e.currentTarget.value }, true)} />
    </label>
  );
}

const FILTERS = [["zone", "filterZone"], ["base", "filterBase"], ["module", "filterModule"], ["version", "filterVersion"], ["state", "filterState"]] as const;

// Filters shows the filters in the URL that have no field in the view.
export function Filters({ place }: { place: Place }): JSX.Element | null {
  const set = FILTERS.filter(([name]) => place[name]);
  if (set.length === 0 && !place.q) return null;
  return (
    <div class="filters" role="group" aria-label={t("filter")}>
      {set.map(([name, text]) => {
        const label = t(text, { name: place[name] === "bad" ? t("notWell") : place[name] });
        return <button type="button" class="chip chosen" title={t("remove")} aria-label={`${t("remove")}: ${label}`} onClick={() => model.go({ [name]: "" })}>{label} <span aria-hidden="true">×</span></button>;
      })}
      {place.q && <button type="button" class="chip chosen" title={t("remove")} aria-label={`${t("remove")}: ${place.q}`} onClick={() => model.go({ q: "" })}>“{place.q}” <span aria-hidden="true">×</span></button>}
      <button type="button" class="link" onClick={() => model.go({ q: "", zone: home.zone, base: "", module: "", version: "", state: "" })}>{t("clearFilters")}</button>
    </div>
  );
}

// Lost shows that the server is unreachable, and the time of the next attempt.
export function Lost({ frame }: { frame: Frame }): JSX.Element {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, []);
  return (
    <div class="banner" role="alert">
      <span>{t("gone", { time: clock(frame.history.end), s: Math.max(Math.ceil((frame.retryAt - now) / 1000), 0) })}</span>
      <button type="button" onClick={() => model.connect()}>{t("now")}</button>
    </div>
  );
}

// Refused asks for the token.
export function Refused(): JSX.Element {
  const [token, setToken] = useState("");
  const [error, setError] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  return (
    <main id="main" class="access">
      <h1>{t("accessTitle")}</h1>
      <p>{t("accessText")}</p>
      <form onSubmit={(e) => {
        e.preventDefault();
        void login(token.trim()).then((problem) => {
          setError(problem);
          if (!problem) model.connect();
        });
      }}>
        <label class="field"><span>{t("token")}</span><input ref={field} type="password" autocomplete="off" required value={token} onInput={(e) => setToken(e.currentTarget.value)} /></label>
        {error && <p role="alert" class="error">{error}</p>}
        <div class="buttons"><button type="submit" class="main">{t("open")}</button></div>
      </form>
      <p>{t("accessCommand")}</p>
      <Copy text="koupsandbox board" />
      <button type="button" class="link" onClick={() => chooseLanguage(document.documentElement.lang === "zh" ? "en" : "zh")}>{t("language")}</button>
    </main>
  );
}
