import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { StreamRow } from "../wire";
import { coloursOf } from "../lanes/look";
import type { VersionNumbers } from "../lanes/look";
import type { Track } from "../state/history";

// Spark draws the rate of a stream over time: columns by version, lost requests in red.
export function Spark({ track, time, span, width, height, versions, label, theme }: {
  track: Track<StreamRow>;
  time: number;
  span: number;
  width: number;
  height: number;
  versions: VersionNumbers;
  label: string;
  theme: string;
}): JSX.Element {
  const ref = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const canvas = ref.current!;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const g = canvas.getContext("2d")!;
    g.scale(ratio, ratio);
    const c = coloursOf(canvas);
    const from = time - span;
    const rows: { x: number; row: StreamRow }[] = [];
    let peak = 1;
    for (let i = Math.max(track.indexAt(from), 0); i < track.times.length && track.times[i]! <= time; i++) {
      const row = track.rows[i];
      if (!row || track.times[i]! < from || row.ended) continue;
      peak = Math.max(peak, row.rate);
      rows.push({ x: ((track.times[i]! - from) / span) * width, row });
    }
    const step = Math.max((1000 / span) * width, 1);
    for (const [i, { x, row }] of rows.entries()) {
      const left = Math.max(x - step, rows[i - 1]?.x ?? 0);
      let y = height - 1;
      const stack = (n: number, colour: string): void => {
        if (n <= 0) return;
        const tall = Math.max((n / peak) * (height - 3), 1);
        g.fillStyle = colour;
        g.fillRect(left, (y -= tall), Math.max(x - left - 0.5, 1), tall);
      };
      let known = 0;
      for (const [version, n] of Object.entries(row.versions ?? {})) {
        known += n;
        stack(n, c.version(versions.of(version)));
      }
      stack(row.rate - row.lostRate - known, c.none);
      stack(row.lostRate, c.bad);
    }
    g.fillStyle = c.line;
    g.fillRect(0, height - 1, width, 1);
  }, [track, track.times.length, time, span, width, height, theme]);
  return <canvas ref={ref} class="spark" role="img" aria-label={label} style={{ width: `${width}px`, height: `${height}px` }} />;
}
