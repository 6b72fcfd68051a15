import type { Changes, Snapshot } from "../wire";

// Access is the state of the session with the server.
export type Access = "connecting" | "live" | "lost" | "refused";

export interface Listener {
  snapshot(s: Snapshot): void;
  changes(c: Changes): void;
  access(a: Access, retryAt?: number): void;
}

// FIRST_WAIT and LONGEST_WAIT limit the time between two connection attempts, in milliseconds.
const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;

// waitBefore returns the delay before an attempt, counted from 0.
export function waitBefore(attempt: number, random: number): number {
  return Math.min(FIRST_WAIT * 2 ** attempt, LONGEST_WAIT) * (0.8 + 0.4 * random);
}

// Feed keeps an event stream open. It reconnects with increasing delays, unless the server rejects the
// stream.
export class Feed {
  private source: EventSource | null = null;
  private timer = 0;
  private attempt = 0;
  private seq = -1;

  constructor(private readonly listener: Listener) {}

  start(): void {
    this.stop();
    const source = (this.source = new EventSource("api/events"));
    source.addEventListener("snapshot", (e) => {
      const s = JSON.parse(e.data) as Snapshot;
      this.seq = s.seq;
      this.attempt = 0;
      this.listener.snapshot(s);
      this.listener.access("live");
    });
    source.addEventListener("changes", (e) => {
      const c = JSON.parse(e.data) as Changes;
      if (c.seq !== this.seq + 1) { // something is missing: a snapshot has it
        this.start();
        return;
      }
      this.seq = c.seq;
      this.listener.changes(c);
    });
    source.onerror = () => void this.failed();
  }

  stop(): void {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  private async failed(): Promise<void> {
    this.stop();
    const status = await fetch("api/history", { cache: "no-store" }).then((r) => r.status, () => 0);
    if (status === 401 || status === 403) {
      this.listener.access("refused");
      return;
    }
    const wait = waitBefore(this.attempt++, Math.random());
    this.listener.access("lost", Date.now() + wait);
    this.timer = window.setTimeout(() => this.start(), wait);
  }
}

// login exchanges a token for a session. It returns the error message of the server if that fails.
export async function login(token: string): Promise<string> {
  try {
    const answer = await fetch("api/session", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }) });
    if (answer.ok) return "";
    const problem = (await answer.json().catch(() => null)) as { error?: string } | null;
    return problem?.error ?? `HTTP ${answer.status}`;
  } catch (err) {
    return String(err);
  }
}
