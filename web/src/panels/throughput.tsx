import {Chart} from "../chart";
import {duration, number} from "../format";
import {Panel} from "../panel";
import * as store from "../store";

export function ThroughputPanel() {
  const view = store.view.value;
  const series = view?.series;
  const empty = series === undefined || series.tokens_per_second.index.length > 0 ? null : {
    reason: "No throughput was reported yet. It needs steps with a number of tokens:",
    command: "longhaul run --help",
  };
  return (
    <Panel id="throughput" title="Throughput" ready={view !== null} empty={empty}>
      {series !== undefined && (
        <>
          <p class="legend">
            <span class="key good">Tokens per second</span>
            <span class="soft">a step takes {duration(view!.run.seconds_per_step)}</span>
          </p>
          <Chart name="Tokens per second over time" series={series} show={(v) => number(v, 3)}
            curves={[{label: "Tokens/s", columns: series.tokens_per_second, colour: "good"}]} />
        </>
      )}
    </Panel>
  );
}
