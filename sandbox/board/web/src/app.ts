import { Component } from "preact";
import type { ComponentType, VNode } from "preact";
import { Model } from "./state/model";
import { format, languageOf, texts } from "./texts";
import type { Language, Text } from "./texts";

// model is the single state of the page.
export const model = new Model();

let language: Language = "en";

// t returns a text in the language of the page.
export function t(key: Text, values?: Record<string, string | number>): string {
  return format(texts[key][language === "en" ? 0 : 1], values);
}

// WORDS are the values of the server that have texts: states, kinds of rows, actions, routes.
const WORDS = /^(a_.*|route_.*|running|starting|disconnected|down|unknown|paused|exited|ready|ACTIVATED|RESOLVED|DEACTIVATED|STOPPED|BROKEN|base|workload|component|fault|stream|module)$/;

// maybe returns the text for a value of the server, or a default.
export function maybe(key: string, otherwise: string): string {
  return WORDS.test(key) && key in texts ? t(key as Text) : otherwise;
}

// remember and remembered store choices of the user. Browsers may forbid storage.
function remember(name: string, value: string): void {
  try {
    localStorage.setItem(name, value);
  } catch {
    // then it holds as long as the URL does
  }
}

function remembered(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

// currentLanguage determines the language, and sets it in the document.
export function currentLanguage(): Language {
  language = languageOf(model.place.lang, remembered("lang"), navigator.languages);
  document.documentElement.lang = language;
  return language;
}

export function chooseLanguage(l: Language): void {
  remember("lang", l);
  model.go({ lang: l }, true);
}

// currentTheme returns light or dark.
export function currentTheme(): "light" | "dark" {
  const chosen = model.place.theme || remembered("theme");
  const theme = chosen === "light" || chosen === "dark" ? chosen : matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset["theme"] = theme;
  return theme;
}

export function chooseTheme(theme: "light" | "dark"): void {
  remember("theme", theme);
  model.go({ theme }, true);
}

// memo renders a component again only if one of its properties has changed.
export function memo<P extends object>(draw: (props: P) => VNode | null): ComponentType<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const keys = new Set([...Object.keys(next), ...Object.keys(this.props)]) as Set<keyof P>;
      for (const key of keys) if (key !== ("children" as keyof P) && next[key] !== (this.props as P)[key]) return true;
      return false;
    }

    override render(props: P): VNode | null {
      return draw(props);
    }
  };
}
