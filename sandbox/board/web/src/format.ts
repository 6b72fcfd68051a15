// Formats of numbers, sizes and times. Times are in the time zone of the browser.

const two = (n: number): string => String(Math.floor(n)).padStart(2, "0");

// clock formats the time of day; with fractions of a second if tick is below one second.
export function clock(time: number, tick = 1000): string {
  const d = new Date(time);
  const minutes = `${two(d.getHours())}:${two(d.getMinutes())}`;
  if (tick >= 60e3 && d.getSeconds() === 0) return minutes;
  const seconds = `${minutes}:${two(d.getSeconds())}`;
  return tick >= 1000 ? seconds : `${seconds}.${String(d.getMilliseconds()).padStart(3, "0")}`;
}

// moment formats a time with milliseconds.
export const moment = (time: number): string => clock(time, 1);

// lasting formats a duration: 120 ms, 4.2 s, 3:05, 2:10:00.
export function lasting(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  const hours = Math.floor(s / 3600);
  return hours > 0 ? `${hours}:${two((s % 3600) / 60)}:${two(s % 60)}` : `${Math.floor(s / 60)}:${two(s % 60)}`;
}

// size formats a number of bytes.
export function size(bytes: number): string {
  const mib = bytes / 2 ** 20;
  return mib >= 1024 ? `${(mib / 1024).toFixed(1)} GiB` : `${Math.round(mib)} MiB`;
}

// count formats a number as 1,234; numbers below ten keep their decimals.
export const count = (n: number): string => (Number.isInteger(n) || n >= 10 ? Math.round(n) : Number(n.toFixed(1))).toLocaleString("en");

export const percent = (share: number): string => `${Math.round(share * 100)} %`;
