// Where the time of all ranks went, over the run.
import {drawFaults, faultsOf} from "./chart_faults";
import {seconds} from "./format";
import {GROUPS, isIn} from "./ledger_groups";
import type {SpentTime} from "./protocol";
import {sharesOf, type Shares} from "./shares";
import {SharesChart} from "./shares_chart";
import * as store from "./store";

// The rank seconds of the ledger's groups, from the productive time up.
function groupsOf({from_ms, width_ms, periods, categories}: SpentTime): Shares {
  return sharesOf(from_ms, width_ms, periods, GROUPS.map((group) => {
    const amounts = new Array<number>(periods).fill(0);
    for (const {category, rank_seconds} of categories) {
      if (!isIn(group, category)) continue;
      rank_seconds.forEach((each, i) => (amounts[i]! += each));
    }
    return {id: group.id, title: group.title, amounts};
  }));
}

function Sums({shares}: {shares: Shares}) {
  return (
    <tr>
      <th>Sum of the run</th>
      {shares.columns.map(({id, amounts}) => {
        const sum = amounts.reduce((all, each) => all + each, 0);
        return <td key={id} class="number" data-group={id} data-value={sum}>{seconds(sum)}</td>;
      })}
    </tr>
  );
}

export function SpentTimeChart({spent}: {spent: SpentTime}) {
  const shares = groupsOf(spent);
  return (
    <SharesChart id="spent-time" name="Shares of the time over the run" unit="Rank seconds"
      shares={shares} endMs={store.lastMs.value} amount={seconds}
      draw={(chart) => drawFaults(chart, faultsOf(store.view.value), [])}
      foot={<Sums shares={shares} />} />
  );
}
