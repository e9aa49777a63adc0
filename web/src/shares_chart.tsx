// Shares of a whole over time, one above the other, and the same as a table.
import type {ComponentChildren} from "preact";
import {useState} from "preact/hooks";
import uPlot from "uplot";

import {clock, duration, percent} from "./format";
import {hatch} from "./hatch";
import {Plot} from "./plot";
import {stacked, type Share, type Shares} from "./shares";
import {colour} from "./theme";

const ROWS = 40;

interface Props {
  id: string;
  name: string;
  unit: string;
  shares: Shares;
  endMs: number;  // of what is shown
  amount: (value: number) => string;
  draw?: (chart: uPlot) => void;  // over the shares
  foot?: ComponentChildren;       // the last row of the table
}

function startMs({fromMs, widthMs}: Shares, period: number): number {
  return fromMs + period * widthMs;
}

// The last period ends with the present. Its values stand at its end too, so that its bar has a
// width.
function dataOf(shares: Shares, endMs: number): uPlot.AlignedData {
  const times = shares.sums.map((_, i) => startMs(shares, i) / 1e3);
  const end = Math.min(startMs(shares, times.length), endMs);
  times.push(Math.max(end, startMs(shares, times.length - 1) + 1) / 1e3);
  const columns = stacked(shares).map((column) => [...column, column.at(-1)!]);
  // uPlot draws its first series first. A share is drawn from the bottom up to its top, over the
  // shares that are above it.
  return [times, ...columns.reverse()];
}

function seriesOf({id, title}: Share): uPlot.Series {
  return {
    label: title,
    stroke: () => colour("line"),
    width: 0.5,
    fill: (chart) => hatch(chart.ctx, id),
    paths: uPlot.paths.stepped!({align: 1}),
    points: {show: false},
    spanGaps: false,
  };
}

function sharesText({columns, sums}: Shares, period: number): string {
  const sum = sums[period]!;
  return columns.filter(({amounts}) => amounts[period]! > 0)
    .map(({title, amounts}) => `${title} ${percent(amounts[period]! / sum)}`)
    .join(", ");
}

function Table({id, name, unit, shares, amount, foot}: Props) {
  const [open, setOpen] = useState(false);
  const newest = shares.sums.map((_, i) => i).slice(-ROWS).reverse();
  return (
    <details id={id} onToggle={(event) =>
      setOpen((event.target as HTMLDetailsElement).open)}>
      <summary>{name} as a table</summary>
      {open && (
        <div class="scroll" tabIndex={0} role="group" aria-label={`${name} as a table`}>
          <table>
            <caption>{unit} in periods of {duration(shares.widthMs / 1e3)}</caption>
            <thead><tr><th>Begin</th>{shares.columns.map((each) =>
              <th key={each.id} class="number">{each.title}</th>)}</tr></thead>
            <tbody>
              {newest.map((i) => (
                <tr key={i}>
                  <td>{clock(startMs(shares, i))}</td>
                  {shares.columns.map((each) => (
                    <td key={each.id} class="number">{amount(each.amounts[i]!)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
            {foot !== undefined && <tfoot>{foot}</tfoot>}
          </table>
        </div>
      )}
    </details>
  );
}

export function SharesChart(props: Props) {
  const {name, shares, endMs, draw} = props;
  const last = shares.sums.map((sum) => sum > 0).lastIndexOf(true);
  const cursorText = (at: number) => {
    const period = Math.min(at, shares.sums.length - 1);
    return `${clock(startMs(shares, period))}, ${sharesText(shares, period)}`;
  };
  const now = last < 0 ? "" : ` The newest period has ${sharesText(shares, last)}.`;
  const label = `${name}, in periods of ${duration(shares.widthMs / 1e3)}.${now} ` +
    "Use the arrow keys to read values.";
  return (
    <>
      <Plot key={shares.columns.map(({id}) => id).join()} label={label} fromMs={shares.fromMs}
        toMs={endMs} data={dataOf(shares, endMs)} series={shares.columns.map(seriesOf).reverse()}
        scale={{min: 0, max: 1}} show={(share) => `${Math.round((share ?? 0) * 100)} %`}
        cursorText={cursorText} draw={draw ?? (() => undefined)} />
      <Table {...props} />
    </>
  );
}
