import { useEffect } from "preact/hooks";

// useRedraw renders again when the operating system switches between light and dark.
export function useRedraw(draw: () => void): void {
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    query.addEventListener("change", draw);
    return () => query.removeEventListener("change", draw);
  }, []);
}
