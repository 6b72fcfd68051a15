import { Fragment } from "preact";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { model, t } from "../app";
import type { Health } from "../wire";
import { home, write } from "../state/url";
import type { Place } from "../state/url";

// Dot shows health by colour and shape, for users who cannot distinguish the colours.
export function Dot({ health, label }: { health: Health | "none"; label?: string }): JSX.Element {
  return <span class={`dot ${health}`} role={label ? "img" : "presentation"} aria-label={label} title={label} />;
}

// Swatch is the colour of a version.
export const Swatch = ({ n }: { n: number }): JSX.Element => <span class={`swatch ${n < 0 ? "vn" : `v${n % 8}`}`} aria-hidden="true" />;

// Part is a share of a Bar.
export interface Part {
  n: number;
  look: string;
  label: string;
}

// Bar shows shares of a whole.
export function Bar({ parts, whole, label }: { parts: readonly Part[]; whole: number; label: string }): JSX.Element {
  return (
    <span class="bar" role="img" aria-label={label} title={label}>
      {parts.filter((p) => p.n > 0).map((p) => <span class={p.look} style={{ width: `${(100 * p.n) / Math.max(whole, 1)}%` }} />)}
    </span>
  );
}

// Open is a button that looks like text and opens the panel.
export function Open({ sel, children, label }: { sel: string; children: ComponentChildren; label?: string }): JSX.Element {
  return <button type="button" class="open" aria-label={label} onClick={() => model.go({ sel })}>{children}</button>;
}

// Goto links to a view with filters. It is a link, so that it can be opened in another tab.
export function Goto({ to, children, class: look, label, current }: { to: Partial<Place>; children: ComponentChildren; class?: string; label?: string; current?: boolean }): JSX.Element {
  return (
    <a href={href(to)} class={look} aria-label={label} aria-current={current ? "page" : undefined} onClick={(e) => {
      if (e.ctrlKey || e.metaKey || e.shiftKey) return;
      e.preventDefault();
      model.reset(to);
    }}>{children}</a>
  );
}


function href(to: Partial<Place>): string {
  const { lang, theme, t } = model.place;
  return location.pathname + write({ ...home, lang, theme, t, ...to });
}

// Section is a titled part of a view.
export function Section({ title, aside, children, class: look = "" }: { title: ComponentChildren; aside?: ComponentChildren; children: ComponentChildren; class?: string }): JSX.Element {
  return (
    <section class={`section ${look}`}>
      <h2>{title}{aside !== undefined && <small>{aside}</small>}</h2>
      {children}
    </section>
  );
}

// Empty shows that there is no data, and the possible reason.
export const Empty = ({ children }: { children: ComponentChildren }): JSX.Element => <p class="empty">{children}</p>;

// Copy is a command with a button that copies it.
export function Copy({ text }: { text: string }): JSX.Element {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [copied]);
  return (
    <div class="command">
      <code tabIndex={0}>{text}</code>
      <button type="button" aria-label={`${t("copy")}: ${text}`} onClick={() => void copy(text).then(() => setCopied(true))}>
        <span aria-live="polite">{copied ? t("copied") : t("copy")}</span>
      </button>
    </div>
  );
}

// copy copies a text to the clipboard, also if the clipboard API is unavailable.
async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

// Modal is a dialog that has the keyboard focus until it is closed.
export function Modal({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }): JSX.Element {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    ref.current?.showModal();
  }, []);
  return (
    <dialog ref={ref} aria-label={title} onClose={close} onClick={(e) => {
      if (e.target === ref.current) close();
    }}>
      <div class="inside">
        <h2>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

// Fields lists names and values, without empty values.
export function Fields({ list }: { list: readonly (readonly [name: string, value: ComponentChildren])[] }): JSX.Element {
  return <dl>{list.filter(([, v]) => v !== undefined && v !== "" && v !== null && v !== false).map(([name, value]) => <Fragment><dt>{name}</dt><dd>{value}</dd></Fragment>)}</dl>;
}

// useSize returns the current width and height of an element.
export function useSize<E extends HTMLElement>(): [ref: { current: E | null }, width: number, height: number] {
  const ref = useRef<E>(null);
  const [[width, height], set] = useState<[number, number]>([0, 0]);
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    const measure = (): void => set([element.clientWidth, element.clientHeight]);
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);
  return [ref, width, height];
}
