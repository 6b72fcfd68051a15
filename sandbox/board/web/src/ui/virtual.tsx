import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

// Virtual is a table of many rows of one height, of which only those in view are there. It says how
// many there are, so that screen readers do not count what they find.
export function Virtual<T>({ rows, height, head, draw, label, keyOf, grows }: {
  rows: readonly T[];
  height: number;
  head: ComponentChildren;
  draw: (row: T, i: number) => ComponentChildren;
  keyOf: (row: T) => string | number;
  label: string;
  // grows tells that new rows come at the top: who has scrolled to others goes on to see them.
  grows?: boolean;
}): JSX.Element {
  const ref = useRef<HTMLDivElement>(null);
  const [[top, room], set] = useState<[number, number]>([0, 800]);
  const before = useRef<T | undefined>(undefined);
  useEffect(() => {
    const element = ref.current!;
    const measure = (): void => {
      set([element.scrollTop, element.clientHeight]);
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    measure();
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", measure);
    };
  }, [height]);
  useLayoutEffect(() => {
    const fresh = grows && before.current !== undefined && top > 0 ? rows.indexOf(before.current) : 0;
    if (fresh > 0) ref.current!.scrollTop += fresh * height;
    before.current = rows[0];
  }, [rows]);
  const first = Math.max(Math.floor(top / height) - 8, 0);
  const last = Math.min(Math.ceil((top + room) / height) + 8, rows.length);
  const columns = Array.isArray(head) ? head.length : 1;
  const gap = (n: number): ComponentChildren => n > 0 && <tr aria-hidden="true" class="gap"><td colSpan={columns} style={{ height: `${n * height}px` }} /></tr>;
  return (
    <div class="virtual" ref={ref} tabIndex={0} role="region" aria-label={label}>
      <table aria-rowcount={rows.length + 1} aria-label={label}>
        <thead><tr>{head}</tr></thead>
        <tbody>
          {gap(first)}
          {rows.slice(first, last).map((row, i) => <tr key={keyOf(row)} aria-rowindex={first + i + 2} style={{ height: `${height}px` }}>{draw(row, first + i)}</tr>)}
          {gap(rows.length - last)}
        </tbody>
      </table>
    </div>
  );
}
