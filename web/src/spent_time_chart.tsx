// Where the time of all ranks went, over the run: the shares of each period, one above the other.
import {useState} from "preact/hooks";
import uPlot from "uplot";

import {drawFaults, faultsOf} from "./chart_faults";
import {clock, duration, percent, seconds} from "./format";
import {hatch} from "./hatch";
import {Plot} from "./plot";
import type {SpentTime} from "./protocol";
import {groupsOf, stacked, sumsOf, type GroupColumn} from "./spent_time";
import * as store from "./store";
import {colour} from "./theme";

const NAME = "Shares of the time over the run";
const ROWS = 40;

function startMs(spent: SpentTime, period: number): number {
  return spent.from_ms + period * spent.width_ms;
}

// The last period ends with the present. Its values stand at its end too, so that its bar has a
// width.
function dataOf(spent: SpentTime, columns: GroupColumn[], sums: number[]): uPlot.AlignedData {
  const times = sums.map((_, i) => startMs(spent, i) / 1e3);
  const end = Math.min(startMs(spent, spent.periods), store.lastMs.value);
  times.push(Math.max(end, startMs(spent, spent.periods - 1) + 1) / 1e3);
  const shares = stacked(columns, sums).map((column) => [...column, column.at(-1)!]);
  // uPlot draws its first series first. A group is drawn from the bottom up to its top, over the
  // groups that are above it.
  return [times, ...shares.reverse()];
}

function seriesOf({group}: GroupColumn): uPlot.Series {
  return {
    label: group.title,
    stroke: () => colour("line"),
    width: 0.5,
    fill: (chart) => hatch(chart.ctx, group.id),
    paths: uPlot.paths.stepped!({align: 1}),
    points: {show: false},
    spanGaps: false,
  };
}

function sharesText(columns: GroupColumn[], sums: number[], period: number): string {
  const sum = sums[period]!;
  return columns.filter(({rankSeconds}) => rankSeconds[period]! > 0)
    .map(({group, rankSeconds}) => `${group.title} ${percent(rankSeconds[period]! / sum)}`)
    .join(", ");
}

function Table({spent, columns, sums}:
  {spent: SpentTime; columns: GroupColumn[]; sums: number[]}) {
  const [open, setOpen] = useState(false);
  const newest = sums.map((_, i) => i).slice(-ROWS).reverse();
  return (
    <details id="spent-time" onToggle={(event) =>
      setOpen((event.target as HTMLDetailsElement).open)}>
      <summary>{NAME} as a table</summary>
      {open && (
        <div class="scroll" tabIndex={0} role="group" aria-label={`${NAME} as a table`}>
          <table>
            <caption>Rank seconds in periods of {duration(spent.width_ms / 1e3)}</caption>
            <thead><tr><th>Begin</th>{columns.map(({group}) =>
              <th key={group.id} class="number">{group.title}</th>)}</tr></thead>
            <tbody>
              {newest.map((i) => (
                <tr key={i}>
                  <td>{clock(startMs(spent, i))}</td>
                  {columns.map(({group, rankSeconds}) => (
                    <td key={group.id} class="number">{seconds(rankSeconds[i]!)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
            <tfoot>
              <tr>
                <th>Sum of the run</th>
                {columns.map(({group, rankSeconds}) => {
                  const sum = rankSeconds.reduce((all, each) => all + each, 0);
                  return <td key={group.id} class="number" data-group={group.id} data-value={sum}>
                    {seconds(sum)}</td>;
                })}
              </tr>
            </tfoot>
          </table>
        </div>
      )}
    </details>
  );
}

export function SpentTimeChart({spent}: {spent: SpentTime}) {
  const columns = groupsOf(spent);
  const sums = sumsOf(columns, spent.periods);
  const last = sums.map((sum) => sum > 0).lastIndexOf(true);
  const cursorText = (at: number) => {
    const period = Math.min(at, spent.periods - 1);
    return `${clock(startMs(spent, period))}, ${sharesText(columns, sums, period)}`;
  };
  const now = last < 0 ? "" : ` The newest period has ${sharesText(columns, sums, last)}.`;
  const label = `${NAME}, in periods of ${duration(spent.width_ms / 1e3)}.${now} ` +
    "Use the arrow keys to read values.";
  return (
    <>
      <Plot key={columns.map(({group}) => group.id).join()} label={label}
        fromMs={spent.from_ms} data={dataOf(spent, columns, sums)}
        series={columns.map(seriesOf).reverse()} scale={{min: 0, max: 1}}
        show={(share) => `${Math.round((share ?? 0) * 100)} %`} cursorText={cursorText}
        draw={(chart) => drawFaults(chart, faultsOf(store.view.value), [])} />
      <Table spent={spent} columns={columns} sums={sums} />
    </>
  );
}
