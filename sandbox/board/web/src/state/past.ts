import type { Changes, Chunk, History as Chunks, LogEntry, Snapshot } from "../wire";
import { History } from "./history";
import type { Logbook } from "./logbook";

// MOST_ROWS is the maximum number of stored rows of history. An hour with a thousand bases and a rollout per
// minute has fewer.
export const MOST_ROWS = 1_200_000;

// decode reads a chunk up to the message with a number. It yields to the page after every SLICE milliseconds.
const SLICE = 12;
export async function decode(text: string, before: number): Promise<{ history: History; log: LogEntry[] }> {
  const history = new History();
  const log: LogEntry[] = [];
  let from = 0;
  let began = performance.now();
  for (let first = true; from < text.length; first = false) {
    const end = text.indexOf("\n", from);
    const line = text.slice(from, end < 0 ? text.length : end);
    from = end < 0 ? text.length : end + 1;
    if (line === "") continue;
    const message = JSON.parse(line) as Snapshot | Changes;
    if (message.seq >= before) break;
    if (first) history.reset(message as Snapshot);
    else history.change(message as Changes);
    if (message.log) for (const entry of message.log) log.push(entry);
    if (performance.now() - began > SLICE) {
      await new Promise((resume) => setTimeout(resume));
      began = performance.now();
    }
  }
  return { history, log };
}

// fill loads the history before the page was opened, newest chunk first, until everything is loaded or the
// limit is reached. It calls changed after each chunk.
export async function fill(live: History, log: Logbook, epoch: string, changed: () => void): Promise<void> {
  const list = (await get("api/history").then((r) => r.json())) as Chunks;
  if (list.epoch !== epoch) return;
  for (const chunk of list.chunks.toReversed()) {
    if (chunk.first >= live.first) continue;
    if (live.size > MOST_ROWS) return;
    const past = await load(chunk, live.first);
    if (past.history.begin === 0) continue;
    live.prepend(past.history);
    log.prepend(past.log);
    changed();
  }
}

// load reads one chunk.
export async function load(chunk: Chunk, before = Infinity): Promise<{ history: History; log: LogEntry[] }> {
  return decode(await get(`api/history/${chunk.id}`).then((r) => r.text()), before);
}

async function get(url: string): Promise<Response> {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url}: HTTP ${answer.status}`);
  return answer;
}
