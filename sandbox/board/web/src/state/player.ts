// Player has the displayed time: live, paused in the past, or playing.
export type Player =
  | { mode: "live" }
  | { mode: "paused"; time: number; speed: number }
  | { mode: "playing"; time: number; speed: number };

export const speeds = [0.25, 0.5, 1, 2, 5, 10, 30] as const;

export interface Range {
  begin: number;
  end: number;
}

const within = (time: number, { begin, end }: Range): number => Math.min(Math.max(time, begin), end);

const speedOf = (p: Player): number => (p.mode === "live" ? 1 : p.speed);

// timeOf returns the displayed time.
export const timeOf = (p: Player, { end }: Range): number => (p.mode === "live" ? end : p.time);

// seek shows a time and pauses.
export function seek(p: Player, time: number, range: Range): Player {
  return { mode: "paused", time: within(time, range), speed: speedOf(p) };
}

// toggle pauses or resumes. At the end of the history it returns to live.
export function toggle(p: Player, range: Range): Player {
  if (p.mode === "live" || p.mode === "playing") return seek(p, timeOf(p, range), range);
  return p.time >= range.end ? { mode: "live" } : { ...p, mode: "playing" };
}

// step moves by some milliseconds. A step beyond the end returns to live.
export function step(p: Player, by: number, range: Range): Player {
  const time = timeOf(p, range) + by;
  return by > 0 && time >= range.end ? { mode: "live" } : seek(p, time, range);
}

// faster selects the next speed, or the previous one if by < 0.
export function faster(p: Player, by: number): Player {
  if (p.mode === "live") return p;
  const at = speeds.findIndex((s) => s >= p.speed);
  return { ...p, speed: speeds[Math.min(Math.max(at + by, 0), speeds.length - 1)]! };
}

// tick plays for some milliseconds of real time. At the end of the history it returns to live.
export function tick(p: Player, elapsed: number, range: Range): Player {
  if (p.mode !== "playing") return p;
  const time = p.time + elapsed * p.speed;
  return time >= range.end ? { mode: "live" } : { ...p, time: within(time, range) };
}
