// A curve over time: a canvas with a name, a cursor for the arrow keys, and a table.
import {useEffect, useRef, useState} from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import {drawFaults, faultsOf} from "./chart_faults";
import {pointsOf, type Points} from "./chart_points";
import {ChartTable} from "./chart_table";
import {clock, count} from "./format";
import type {AllSeries, SeriesColumns} from "./protocol";
import * as store from "./store";
import {colour, themeVersion} from "./theme";

const HEIGHT = 190;

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

function options(props: Props, width: number, onCursor: (chart: uPlot) => void): uPlot.Options {
  const axis = {
    stroke: () => colour("soft"),
    grid: {stroke: () => colour("line"), width: 1},
    ticks: {stroke: () => colour("line"), width: 1},
    font: "12px system-ui, sans-serif",
  };
  return {
    width,
    height: HEIGHT,
    legend: {show: false},
    cursor: {drag: {x: true, y: false}, points: {size: 7}},
    scales: {x: {time: true}},
    axes: [
      {...axis, space: 70, size: 30, values: (_, ticks) => ticks.map((tick) => clock(tick * 1e3))},
      {...axis, size: 64, values: (_, ticks) => ticks.map((tick) => props.show(tick))},
    ],
    series: [
      {},
      ...props.curves.map((curve) => ({
        label: curve.label,
        stroke: () => colour(curve.colour),
        width: 1.5,
        dash: curve.dashed ? [6, 4] : undefined,
        spanGaps: false,
        points: {show: curve.dashed, size: 4, fill: () => colour(curve.colour)},
      })),
    ],
    hooks: {
      draw: [(chart) => drawFaults(chart, faultsOf(store.view.value), marksOf(props))],
      setCursor: [onCursor],
      setSelect: [(chart) => {
        if (chart.select.width < 2) return;
        const from = chart.posToVal(chart.select.left, "x") * 1000;
        const to = chart.posToVal(chart.select.left + chart.select.width, "x") * 1000;
        chart.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
        store.range.value = {from, to};
      }],
    },
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

function cursorText(chart: uPlot, props: Props, points: Points): string {
  const at = chart.cursor.idx;
  if (at === null || at === undefined) return "";
  const values = props.curves.map((curve, i) => {
    const value = points.data[i + 1]?.[at];
    return value === null || value === undefined ? null : `${curve.label} ${props.show(value)}`;
  });
  const step = points.steps[at];
  return [clock(points.data[0][at]! * 1000), step && `step ${count(step)}`, ...values]
    .filter(Boolean).join(", ");
}

function xRange(props: Props): {min: number; max: number} {
  const range = store.range.value;
  const from = range?.from ?? props.series.from_ms;
  const to = range?.to ?? store.lastMs.value;
  return {min: from / 1e3, max: Math.max(to, from + 1_000) / 1e3};
}

// Moves the cursor to the next point of the data, for the arrow keys.
function moveCursor(chart: uPlot, key: string) {
  const last = chart.data[0].length - 1;
  const at = chart.cursor.idx ?? last;
  const next = Math.min(last, Math.max(0, at + (key === "ArrowRight" ? 1 : -1)));
  const left = chart.valToPos(chart.data[0][next] ?? 0, "x");
  chart.setCursor({left, top: chart.cursor.top ?? 10});
}

export function Chart(props: Props) {
  const holder = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const latest = useRef({props, points: pointsOf(props.curves, props.series.from_ms)});
  const [cursor, setCursor] = useState("");
  const theme = themeVersion.value;
  latest.current = {props, points: pointsOf(props.curves, props.series.from_ms)};

  useEffect(() => {
    const element = holder.current!;
    const onCursor = (moved: uPlot) =>
      setCursor(cursorText(moved, latest.current.props, latest.current.points));
    const made = new uPlot(
      options(latest.current.props, element.clientWidth, onCursor), [[]], element);
    chart.current = made;
    const observer = new ResizeObserver(
      () => made.setSize({width: element.clientWidth, height: HEIGHT}));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      chart.current = null;
    };
  }, [theme, props.curves.length]);

  useEffect(() => {
    const made = chart.current;
    if (made === null) return;
    made.batch(() => {
      made.setData(latest.current.points.data as uPlot.AlignedData, false);
      made.setScale("x", xRange(props));
    });
  });

  return (
    <>
      <div class="chart" ref={holder} tabIndex={0} role="group" aria-label={summary(props)}
        onKeyDown={(event) => {
          if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
          event.preventDefault();
          if (chart.current !== null) moveCursor(chart.current, event.key);
        }} />
      <p class="cursor" role="status">{cursor || "\u00a0"}</p>
      <ChartTable {...props} />
    </>
  );
}
