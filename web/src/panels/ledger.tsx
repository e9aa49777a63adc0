import {Chart} from "../chart";
import {percent, seconds, shellWord, words} from "../format";
import {sharesOf, sumAgrees, sumOf} from "../ledger_groups";
import {Panel} from "../panel";
import type {Ledger} from "../protocol";
import {SpentTimeChart} from "../spent_time_chart";
import * as store from "../store";

function share(part: number, whole: number): string {
  return whole > 0 ? percent(part / whole) : percent(0);
}

function Bar({ledger}: {ledger: Ledger}) {
  const shares = sharesOf(ledger).filter((each) => each.rankSeconds > 0);
  const text = shares
    .map((each) => `${each.group.title} ${share(each.rankSeconds, ledger.rank_seconds)}`)
    .join(", ");
  return (
    <>
      <div class="stack" role="img" aria-label={`The time of all ranks: ${text}.`}>
        {shares.map(({group, rankSeconds}) => (
          <span key={group.id} class={`part ${group.id}`} style={{flexGrow: rankSeconds}} />
        ))}
      </div>
      <p class="legend" aria-hidden="true">
        {shares.map(({group, rankSeconds}) => (
          <span key={group.id} class="share">
            <span class={`swatch ${group.id}`} /> {group.title}{" "}
            {share(rankSeconds, ledger.rank_seconds)}
          </span>
        ))}
      </p>
    </>
  );
}

function CategoryTable({ledger}: {ledger: Ledger}) {
  const rows = ledger.categories.filter((each) => each.rank_seconds > 0);
  return (
    <table>
      <thead><tr><th>Category</th><th class="number">Rank seconds</th>
        <th class="number">Share</th></tr></thead>
      <tbody>
        {rows.map(({category, rank_seconds}) => (
          <tr key={category}>
            <td>{words(category)}</td>
            <td class="number" data-value={rank_seconds}>{seconds(rank_seconds)}</td>
            <td class="number">{share(rank_seconds, ledger.rank_seconds)}</td>
          </tr>
        ))}
      </tbody>
      <tfoot>
        <tr>
          <th>Sum</th>
          <td class="number">{seconds(sumOf(ledger))}</td>
          <td>{sumAgrees(ledger) ? "equals the time of all ranks"
            : `differs from the time of all ranks, ${seconds(ledger.rank_seconds)}`}</td>
        </tr>
      </tfoot>
    </table>
  );
}

export function LedgerPanel() {
  const view = store.view.value;
  const ledger = view?.ledger;
  const empty = ledger === undefined || ledger.rank_seconds > 0 ? null
    : store.frozen.value !== null
    ? {reason: "The log of the run does not have the shares of its time."} : {
    reason: "No time is counted yet: the job waits for nodes.",
    command: `longhaul status ${shellWord(view?.run.id ?? "")} --why`,
  };
  return (
    <Panel id="ledger" title="Goodput" wide ready={view !== null} empty={empty}>
      {ledger !== undefined && (
        <div class="beside">
          <div>
          <p><strong>{percent(ledger.goodput)}</strong> of the time since the job had nodes was
            productive.</p>
          <Bar ledger={ledger} />
          {view!.spent_time !== null ? <SpentTimeChart spent={view!.spent_time} />
            : view!.series !== undefined && (
            <Chart name="Goodput over time" series={view!.series} show={(v) => percent(v ?? 0)}
              curves={[{label: "Goodput", columns: view!.series.goodput, colour: "good"}]} />
          )}
          </div>
          <CategoryTable ledger={ledger} />
        </div>
      )}
    </Panel>
  );
}
