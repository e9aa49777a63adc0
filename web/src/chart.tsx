// Curves over time: a canvas with a name, a cursor for the arrow keys, and a table.
import type uPlot from "uplot";

import {drawFaults, faultsOf} from "./chart_faults";
import {pointsOf, type Points} from "./chart_points";
import {ChartTable} from "./chart_table";
import {clock, count} from "./format";
import {Plot} from "./plot";
import type {AllSeries, SeriesColumns} from "./protocol";
import * as store from "./store";
import {colour} from "./theme";

export interface Curve {
  label: string;
  columns: SeriesColumns;
  colour: "good" | "change" | "warn";
  dashed?: boolean;
}

interface Props {
  name: string;
  curves: Curve[];
  series: AllSeries;
  show: (value: number | null) => string;
}

function seriesOf(curve: Curve): uPlot.Series {
  return {
    label: curve.label,
    stroke: () => colour(curve.colour),
    width: 1.5,
    dash: curve.dashed ? [6, 4] : undefined,
    spanGaps: false,
    points: {show: curve.dashed, size: 4, fill: () => colour(curve.colour)},
  };
}

// The times of values that are not finite, in seconds.
function marksOf(props: Props): number[] {
  const marks: number[] = [];
  for (const {columns} of props.curves) {
    const {index, width_ms, not_finite} = columns;
    not_finite.forEach((times, i) => {
      if (times > 0) marks.push((props.series.from_ms + index[i]! * width_ms) / 1e3);
    });
  }
  return marks;
}

function summary(props: Props): string {
  const parts = props.curves.map((curve) => {
    const last = curve.columns.last.length - 1;
    if (last < 0) return `${curve.label}: no value yet`;
    return `${curve.label}: ${props.show(curve.columns.last[last]!)} at step ` +
      count(curve.columns.step[last]!);
  });
  return `${props.name}. ${parts.join(". ")}. Use the arrow keys to read values.`;
}

function cursorText(at: number, props: Props, points: Points): string {
  const values = props.curves.map((curve, i) => {
    const value = points.data[i + 1]?.[at];
    return value === null || value === undefined ? null : `${curve.label} ${props.show(value)}`;
  });
  const step = points.steps[at];
  return [clock(points.data[0][at]! * 1000), step && `step ${count(step)}`, ...values]
    .filter(Boolean).join(", ");
}

export function Chart(props: Props) {
  const points = pointsOf(props.curves, props.series.from_ms);
  return (
    <>
      <Plot label={summary(props)} fromMs={props.series.from_ms}
        data={points.data as uPlot.AlignedData} series={props.curves.map(seriesOf)}
        show={props.show} cursorText={(at) => cursorText(at, props, points)}
        draw={(chart) => drawFaults(chart, faultsOf(store.view.value), marksOf(props))} />
      <ChartTable {...props} />
    </>
  );
}
