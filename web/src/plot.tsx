// The frame of a chart: a uPlot canvas with a name, a cursor for the arrow keys, and the choice of
// a part of the time. What is drawn in it is the caller's.
import {useEffect, useRef, useState} from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import {clock} from "./format";
import * as store from "./store";
import {colour, themeVersion} from "./theme";

const HEIGHT = 190;

interface Props {
  label: string;  // for screen readers
  fromMs: number;
  toMs?: number;  // else the present of the run
  data: uPlot.AlignedData;  // times in seconds, then one column for each entry of `series`
  series: uPlot.Series[];
  show: (value: number | null) => string;  // a value at the axis
  scale?: {min: number; max: number};      // of the values; else what they need
  cursorText: (point: number) => string;
  draw: (chart: uPlot) => void;  // over the series
}

function options(latest: {current: Props}, width: number, onCursor: (chart: uPlot) => void):
  uPlot.Options {
  const axis = {
    stroke: () => colour("soft"),
    grid: {stroke: () => colour("line"), width: 1},
    ticks: {stroke: () => colour("line"), width: 1},
    font: "12px system-ui, sans-serif",
  };
  const {series, scale} = latest.current;
  return {
    width,
    height: HEIGHT,
    legend: {show: false},
    cursor: {drag: {x: true, y: false}, points: {size: 7}},
    scales: {x: {time: true}, y: scale === undefined ? {} : {range: [scale.min, scale.max]}},
    axes: [
      {...axis, space: 70, size: 30, values: (_, ticks) => ticks.map((tick) => clock(tick * 1e3))},
      {...axis, size: 64, values: (_, ticks) => ticks.map((tick) => latest.current.show(tick))},
    ],
    series: [{}, ...series],
    hooks: {
      draw: [(chart) => latest.current.draw(chart)],
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

function xRange({fromMs, toMs}: Props): {min: number; max: number} {
  const range = store.range.value;
  const from = range?.from ?? fromMs;
  const to = range?.to ?? toMs ?? store.lastMs.value;
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

export function Plot(props: Props) {
  const holder = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const latest = useRef(props);
  const [cursor, setCursor] = useState("");
  const theme = themeVersion.value;
  latest.current = props;

  useEffect(() => {
    const element = holder.current!;
    const onCursor = ({cursor: {idx}}: uPlot) =>
      setCursor(idx === null || idx === undefined ? "" : latest.current.cursorText(idx));
    const made = new uPlot(options(latest, element.clientWidth, onCursor), [[]], element);
    chart.current = made;
    const observer = new ResizeObserver(
      () => made.setSize({width: element.clientWidth, height: HEIGHT}));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      chart.current = null;
    };
  }, [theme, props.series.length]);

  useEffect(() => {
    const made = chart.current;
    if (made === null) return;
    made.batch(() => {
      made.setData(latest.current.data, false);
      made.setScale("x", xRange(latest.current));
    });
  });

  return (
    <>
      <div class="chart" ref={holder} tabIndex={0} role="group" aria-label={props.label}
        onKeyDown={(event) => {
          if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
          event.preventDefault();
          if (chart.current !== null) moveCursor(chart.current, event.key);
        }} />
      <p class="cursor" role="status">{cursor || "\u00a0"}</p>
    </>
  );
}
