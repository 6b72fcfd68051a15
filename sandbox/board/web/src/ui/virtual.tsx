import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

// Virtual is a table with many rows of equal height, of which only visible rows are rendered. It has the
// total number of rows for screen readers.
export function Virtual<T>({ count, row, height, head, draw, label, keyOf, grows }: {
  count: number;
  row: (i: number) => T;
  height: number;
  head: ComponentChildren;
  draw: (row: T) => ComponentChildren;
  keyOf: (row: T) => string | number;
  label: string;
  // grows means that new rows are added at the top. The scroll position then stays at the same rows.
  grows?: boolean;
}): JSX.Element {
  const ref = useRef<HTMLDivElement>(null);
  const [[top, room], set] = useState<[number, number]>([0, 800]);
  const before = useRef(0);
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
    if (grows && top > 0 && count > before.current) ref.current!.scrollTop += (count - before.current) * height;
    before.current = count;
  }, [count]);
  const first = Math.min(Math.max(Math.floor(top / height) - 8, 0), count);
  const last = Math.min(Math.ceil((top + room) / height) + 8, count);
  const columns = Array.isArray(head) ? head.length : 1;
  const gap = (n: number): ComponentChildren => n > 0 && <tr aria-hidden="true" class="gap"><td colSpan={columns} style={{ height: `${n * height}px` }} /></tr>;
  return (
    <div class="virtual" ref={ref} tabIndex={0} role="region" aria-label={label}>
      <table aria-rowcount={count + 1} aria-label={label}>
        <thead><tr>{head}</tr></thead>
        <tbody>
          {gap(first)}
          {Array.from({ length: Math.max(last - first, 0) }, (_, i) => row(first + i)).map((r, i) => <tr key={keyOf(r)} aria-rowindex={first + i + 2} style={{ height: `${height}px` }}>{draw(r)}</tr>)}
          {gap(count - last)}
        </tbody>
      </table>
    </div>
  );
}
