// Adds new samples to a series by the server's rule (src/service/controller/view/series.h), so that
// a page that has followed a run shows what a page shows that loads now.
import type {SeriesColumns} from "./protocol";

const MOST_BUCKETS = 512;

export function addSample(series: SeriesColumns, atMs: number, step: number, value: number | null) {
  const last = series.index.length - 1;
  let index = Math.floor(Math.max(atMs, 0) / series.width_ms);
  if (last >= 0) index = Math.max(index, series.index[last]!);
  const finite = value !== null && Number.isFinite(value);
  if (last < 0 || series.index[last] !== index) {
    series.index.push(index);
    series.step.push(step);
    series.first.push(finite ? value : null);
    series.min.push(finite ? value : null);
    series.max.push(finite ? value : null);
    series.last.push(finite ? value : null);
    series.not_finite.push(finite ? 0 : 1);
  } else {
    series.step[last] = step;
    if (finite) {
      extend(series, last, value, value, value, value);
    } else {
      series.not_finite[last]! += 1;
    }
  }
  while (series.index.length > MOST_BUCKETS) widen(series);
}

function extend(
  series: SeriesColumns, i: number, first: number, min: number, max: number, last: number) {
  series.first[i] ??= first;
  series.min[i] = Math.min(series.min[i] ?? min, min);
  series.max[i] = Math.max(series.max[i] ?? max, max);
  series.last[i] = last;
}

// Doubles the width and merges neighbours, in place.
function widen(series: SeriesColumns) {
  const {index, step, first, min, max, last, not_finite} = series;
  series.width_ms *= 2;
  let kept = 0;
  for (let i = 0; i < index.length; ++i) {
    const at = Math.floor(index[i]! / 2);
    if (kept > 0 && index[kept - 1] === at) {
      step[kept - 1] = step[i]!;
      not_finite[kept - 1]! += not_finite[i]!;
      if (first[i] !== null) extend(series, kept - 1, first[i]!, min[i]!, max[i]!, last[i]!);
      continue;
    }
    index[kept] = at;
    step[kept] = step[i]!;
    first[kept] = first[i]!;
    min[kept] = min[i]!;
    max[kept] = max[i]!;
    last[kept] = last[i]!;
    not_finite[kept] = not_finite[i]!;
    ++kept;
  }
  for (const column of [index, step, first, min, max, last, not_finite]) column.length = kept;
}
