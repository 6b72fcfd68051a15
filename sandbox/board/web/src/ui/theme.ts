import { useEffect } from "preact/hooks";

// useRedraw calls again when the operating system turns to light or dark.
export function useRedraw(draw: () => void): void {
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    query.addEventListener("change", draw);
    return () => query.removeEventListener("change", draw);
  }, []);
}
