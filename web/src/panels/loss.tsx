import {Chart, type Curve} from "../chart";
import {number} from "../format";
import {Panel} from "../panel";
import * as store from "../store";

export function LossPanel() {
  const view = store.view.value;
  const series = view?.series;
  const curves: Curve[] = [];
  if (series !== undefined) {
    curves.push({label: "Loss", columns: series.loss, colour: "good"});
    if (series.validation_loss.index.length > 0) {
      curves.push({label: "Validation loss", columns: series.validation_loss, colour: "change",
        dashed: true});
    }
  }
  const empty = series === undefined || series.loss.index.length > 0 ? null : {
    reason: "No loss was reported yet. A command reports it through the worker API or prints it:",
    command: "longhaul run --help",
  };
  return (
    <Panel id="loss" title="Loss" ready={view !== null} empty={empty}>
      {series !== undefined && (
        <>
          <p class="legend">
            <span class="key good">Loss</span>
            {curves.length > 1 && <span class="key change dashed">Validation loss</span>}
            <span class="key fault">Fault</span>
            <span class="key redo">Steps done again</span>
          </p>
          <Chart name="Loss over time" curves={curves} series={series} show={(v) => number(v)} />
        </>
      )}
    </Panel>
  );
}
