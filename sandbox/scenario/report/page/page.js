// The page: timelines are made when their run is shown first.
function make(tag, className, content) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (content) element.textContent = content;
  return element;
}

const tip = make('div', 'tip');
tip.hidden = true;
document.body.append(tip);

function hideTip() { tip.hidden = true; }

function showTip(content, x, y) {
  tip.hidden = !content;
  if (!content) return;
  tip.textContent = content;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, window.innerWidth - box.width - 8)) + 'px';
  tip.style.top = (y + 18 + box.height > window.innerHeight ? Math.max(4, y - box.height - 10) : y + 18) + 'px';
}

const timelines = new Map();

function timelineOf(details) {
  const element = details.querySelector('.timeline');
  if (!element) return null;
  if (!timelines.has(element)) timelines.set(element, new Timeline(element, data.runs[Number(element.dataset.run)]));
  return timelines.get(element);
}

for (const details of document.querySelectorAll('details.run')) {
  if (details.open) timelineOf(details);
  details.addEventListener('toggle', () => { if (details.open) timelineOf(details); });
  details.addEventListener('click', (e) => {
    const row = e.target.closest('tr.goto'), timeline = row && timelineOf(details);
    if (!timeline) return;
    const from = Number(row.dataset.from), length = Number(row.dataset.length), room = Math.max(length, 50e3);
    timeline.show(from - room * 0.6, from + length + room * 0.6);
    timeline.scroll.scrollIntoView({ block: 'nearest' });
  });
}

function openTarget() {
  const target = location.hash.startsWith('#run-') && document.getElementById(location.hash.slice(1));
  if (target) target.open = true;
}
window.addEventListener('hashchange', openTarget);
openTarget();

const redraw = () => { for (const t of timelines.values()) t.draw(); };
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
window.addEventListener('beforeprint', () => { for (const t of timelines.values()) t.drawNow(true); });
window.addEventListener('afterprint', redraw);
