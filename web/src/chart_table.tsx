// The numbers of a chart as a table: the newest periods, newest first.
import {useState} from "preact/hooks";

import type {Curve} from "./chart";
import {clock, count} from "./format";
import type {AllSeries} from "./protocol";

const ROWS = 40;

interface Props {
  name: string;
  curves: Curve[];
  series: AllSeries;
  show: (value: number | null) => string;
}

function Rows({curve, series, show}: {curve: Curve} & Pick<Props, "series" | "show">) {
  const {index, width_ms, step, min, max, last, not_finite} = curve.columns;
  const newest = index.map((_, i) => i).slice(-ROWS).reverse();
  return (
    <>
      {newest.map((i) => (
        <tr key={index[i]}>
          <td>{clock(series.from_ms + index[i]! * width_ms)}</td>
          <td class="number">{count(step[i]!)}</td>
          <td>{curve.label}</td>
          <td class="number">{show(min[i]!)}</td>
          <td class="number">{show(max[i]!)}</td>
          <td class="number">{show(last[i]!)}</td>
          <td class="number">{not_finite[i]! > 0 ? `${not_finite[i]} not finite` : ""}</td>
        </tr>
      ))}
    </>
  );
}

export function ChartTable({name, curves, series, show}: Props) {
  const [open, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen((event.target as HTMLDetailsElement).open)}>
      <summary>{name} as a table</summary>
      {open && (
        <div class="scroll" tabIndex={0} role="group" aria-label={`${name} as a table`}>
          <table>
            <thead>
              <tr><th>Time</th><th>Step</th><th>Curve</th><th>Smallest</th><th>Largest</th>
                <th>Last</th><th>Notes</th></tr>
            </thead>
            <tbody>
              {curves.map((curve) => (
                <Rows key={curve.label} curve={curve} series={series} show={show} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}
