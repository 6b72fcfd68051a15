let tip: HTMLElement | null = null;

// showTip shows a text next to the pointer; an empty text hides it.
export function showTip(text: string, at?: { clientX: number; clientY: number }): void {
  if (!tip) {
    tip = document.createElement("div");
    tip.className = "tip";
    tip.setAttribute("aria-hidden", "true"); // what it says, the page says elsewhere
    document.body.append(tip);
  }
  tip.hidden = text === "";
  if (!at || text === "") return;
  if (tip.textContent !== text) tip.textContent = text;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(at.clientX + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${at.clientY + 18 + box.height > innerHeight ? Math.max(4, at.clientY - box.height - 10) : at.clientY + 18}px`;
}
