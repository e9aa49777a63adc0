// The points of curves for uPlot: up to four of each period, so that no extreme value is lost.
import type {SeriesColumns} from "./protocol";

export interface Points {
  data: [number[], ...(number | null | undefined)[][]];  // seconds, then the values of each curve
  steps: number[];  // of each point; 0: unknown
}

interface Point {
  at: number;
  curve: number;
  value: number | null;
  step: number;
}

// A curve that has no sample for so many periods stands still: the line has a gap. Shorter pauses
// are the time between two steps.
const GAP_OF_MEDIAN = 8;

function pointsOfCurve(columns: SeriesColumns, fromMs: number, curve: number): Point[] {
  const points: Point[] = [];
  const gap = gapMs(columns);
  const {index, width_ms} = columns;
  for (let i = 0; i < index.length; ++i) {
    const start = fromMs + index[i]! * width_ms;
    const step = columns.step[i]!;
    if (i > 0 && (index[i]! - index[i - 1]!) * width_ms > gap) {
      points.push({at: start - 1, curve, value: null, step: 0});
    }
    if (columns.first[i] === null) {
      points.push({at: start, curve, value: null, step});
      continue;
    }
    const values = [columns.first[i]!, columns.min[i]!, columns.max[i]!, columns.last[i]!];
    const one = values.every((value) => value === values[0]);
    const shown = one ? [values[0]!] : values;
    shown.forEach((value, k) =>
      points.push({at: start + (k * width_ms) / 4, curve, value, step}));
  }
  return points;
}

function gapMs(columns: SeriesColumns): number {
  const pauses: number[] = [];
  for (let i = 1; i < columns.index.length; ++i) {
    pauses.push(columns.index[i]! - columns.index[i - 1]!);
  }
  if (pauses.length === 0) return Infinity;
  pauses.sort((a, b) => a - b);
  return Math.max(1_000, pauses[pauses.length >> 1]! * columns.width_ms * GAP_OF_MEDIAN);
}

// undefined: this curve has no point at that time, and its line continues; null: its line breaks.
export function pointsOf(curves: {columns: SeriesColumns}[], fromMs: number): Points {
  const all = curves.flatMap((curve, i) => pointsOfCurve(curve.columns, fromMs, i));
  all.sort((a, b) => a.at - b.at);
  const times: number[] = [];
  const steps: number[] = [];
  const values = curves.map(() => [] as (number | null | undefined)[]);
  for (const point of all) {
    const at = point.at / 1e3;
    const taken = values[point.curve]![times.length - 1] !== undefined;
    if (times.length === 0 || times[times.length - 1] !== at || taken) {
      times.push(at);
      steps.push(point.step);
      for (const column of values) column.push(undefined);
    }
    const last = times.length - 1;
    values[point.curve]![last] = point.value;
    steps[last] = point.step || steps[last]!;
  }
  return {data: [times, ...values], steps};
}
