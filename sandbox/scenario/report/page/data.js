// What the report has to draw. Numbers lie flat in arrays: see view.go.
const data = JSON.parse(document.getElementById('data').textContent);
const text = (id) => data.texts[id];
const BAR = 6, STEP = 6, LOST = 3, MARK = 4;

// firstAfter returns the first of the records, of the given width, whose number at
// offset is greater than a limit. The records are sorted by it.
function firstAfter(flat, width, offset, limit) {
  let low = 0, high = flat.length / width;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (flat[middle * width + offset] > limit) high = middle; else low = middle + 1;
  }
  return low;
}

// moment shows a time of the run, as precisely as the view is near.
function moment(micros, span) {
  const digits = span > 20e6 ? 0 : span > 2e6 ? 1 : span > 200e3 ? 2 : 3;
  return (micros / 1e6).toFixed(digits) + ' s';
}

function duration(micros) {
  if (micros >= 1e6) return (micros / 1e6).toFixed(2) + ' s';
  return micros >= 1e3 ? (micros / 1e3).toFixed(0) + ' ms' : (micros / 1e3).toFixed(1) + ' ms';
}

// tickOf returns the distance of the axis' ticks: 1, 2 or 5 times a power of ten,
// and never more than about ten of them.
function tickOf(span) {
  const rough = span / 10, power = Math.pow(10, Math.floor(Math.log10(rough)));
  for (const factor of [1, 2, 5]) if (factor * power >= rough) return factor * power;
  return 10 * power;
}
