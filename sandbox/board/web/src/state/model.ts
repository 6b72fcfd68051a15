import type { BoardRow, Snapshot } from "../wire";
import { Builder } from "../lanes/build";
import { VersionNumbers } from "../lanes/look";
import { versionsOf } from "./derive";
import { Feed, login } from "./feed";
import type { Access } from "./feed";
import { History } from "./history";
import { Logbook } from "./logbook";
import { fill, MOST_ROWS } from "./past";
import { tick, timeOf } from "./player";
import type { Player } from "./player";
import { home, read, write } from "./url";
import type { Place } from "./url";
import type { World } from "./world";

// Frame is the input of the views: the state at a time, with its history.
export interface Frame {
  world: World;
  // time is the displayed time; live reports whether it is the latest.
  time: number;
  live: boolean;
  history: History;
  log: Logbook;
  versions: VersionNumbers;
  builder: Builder;
  player: Player;
  place: Place;
  access: Access;
  retryAt: number;
  // past reports whether chunks of history are being loaded.
  past: boolean;
  board: BoardRow | undefined;
}

// NOTE_AFTER is the delay in milliseconds before the displayed time is written to the URL, because browsers
// limit the rate of URL changes.
const NOTE_AFTER = 250;

// KEEP is the part of the history that is kept when it exceeds its limit.
const KEEP = 0.8;

// Model is the state of the page. Views subscribe to it.
export class Model {
  history = new History();
  log = new Logbook();
  versions = new VersionNumbers();
  builder = new Builder(this.history, this.log, this.versions);
  player: Player = { mode: "live" };
  place: Place = read(location.search);
  access: Access = "connecting";
  retryAt = 0;
  past = false;

  private epoch = "";
  private readonly listeners = new Set<() => void>();
  private asked = 0;
  private ticked = 0;
  private noting = 0;
  private readonly feed = new Feed({
    snapshot: (s) => this.snapshot(s),
    changes: (c) => {
      this.history.change(c);
      if (c.log) this.log.add(c.log);
      this.learn();
      this.bound();
      this.changed();
    },
    access: (a, retryAt) => {
      this.access = a;
      this.retryAt = retryAt ?? 0;
      this.changed();
    },
  });

  // start exchanges the token in the URL, if any, and connects.
  async start(): Promise<void> {
    const token = new URLSearchParams(location.hash.slice(1)).get("token");
    if (token) {
      history.replaceState(null, "", location.pathname + location.search);
      await login(token);
    }
    if (this.place.t !== null) this.player = { mode: "paused", time: this.place.t, speed: 1 };
    addEventListener("popstate", () => {
      this.place = read(location.search);
      this.changed();
    });
    // A page in the back/forward cache of the browser would keep its connection, and browsers allow only six
    // per server.
    addEventListener("pagehide", () => this.feed.stop());
    addEventListener("pageshow", (e) => e.persisted && this.connect());
    this.feed.start();
  }

  // connect retries immediately.
  connect(): void {
    this.access = "connecting";
    this.feed.start();
    this.changed();
  }

  // go changes the URL. Changes of a text filter replace the entry of the browser history; other changes add
  // an entry.
  go(part: Partial<Place>, replace = false): void {
    this.place = { ...this.place, ...part };
    const url = location.pathname + write(this.place);
    if (url !== location.pathname + location.search) {
      if (replace) history.replaceState(null, "", url);
      else history.pushState(null, "", url);
    }
    this.changed();
  }

  // reset opens a view without filters.
  reset(part: Partial<Place>): void {
    const { lang, theme, t } = this.place;
    this.go({ ...home, lang, theme, t, ...part });
  }

  play(p: Player): void {
    this.player = p;
    this.ticked = performance.now();
    clearTimeout(this.noting);
    if (p.mode !== "playing") this.noting = window.setTimeout(() => this.go({ t: p.mode === "live" ? null : Math.round(p.time) }, true), NOTE_AFTER);
    this.changed();
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  frame(): Frame {
    const { history, log, versions, builder, player, place, access, retryAt, past } = this;
    const live = player.mode === "live";
    const time = timeOf(player, history);
    return { world: live ? history.now : history.at(time), time, live, history, log, versions, builder, player, place, access, retryAt, past, board: history.now.board.get("board") };
  }

  private snapshot(s: Snapshot): void {
    if (s.epoch !== this.epoch) this.begin(s.epoch);
    const first = this.history.begin === 0;
    const board = s.tables.board?.["board"];
    if (board?.source === "report" && board.ended) s.time = Math.min(s.time, board.ended); // a run ends when it ended
    this.history.reset(s);
    if (s.log) this.log.add(s.log);
    this.learn();
    if (first) void this.fill(s.epoch);
    this.changed();
  }

  // begin discards the data of another run of the server.
  private begin(epoch: string): void {
    this.epoch = epoch;
    this.history = new History();
    this.log = new Logbook();
    this.versions = new VersionNumbers();
    this.builder = new Builder(this.history, this.log, this.versions);
  }

  private async fill(epoch: string): Promise<void> {
    this.past = true;
    const { history } = this;
    await fill(history, this.log, epoch, () => this.changed()).catch((err) => console.warn("the past cannot be loaded:", err));
    if (this.history === history) {
      this.past = false;
      this.sortVersions();
    }
    this.changed();
  }

  private learn(): void {
    this.versions.learn(versionsOf(this.history.now));
  }

  // sortVersions assigns the colours of versions, so that they are equal on all pages with the same history.
  private sortVersions(): void {
    const seen = new Set<string>();
    for (const track of this.history.tracks.base.values()) {
      let before: unknown;
      for (const row of track.rows) {
        if (row && row.modules !== before) for (const m of row.modules) seen.add(m.version);
        before = row?.modules;
      }
    }
    this.versions.sort(seen);
    this.builder = new Builder(this.history, this.log, this.versions);
  }

  private bound(): void {
    const h = this.history;
    if (h.size > MOST_ROWS * 1.1) h.forget(h.end - (h.end - h.begin) * KEEP);
  }

  private changed(): void {
    if (this.asked) return;
    this.asked = requestAnimationFrame((now) => {
      this.asked = 0;
      if (this.player.mode === "playing") {
        const next = tick(this.player, Math.max(now - this.ticked, 0), this.history);
        this.ticked = now;
        if (next.mode === "live") this.play(next);
        else this.player = next;
        this.changed();
      }
      for (const listener of this.listeners) listener();
    });
  }
}
