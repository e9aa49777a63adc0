// The share of the accelerators' peak that the model uses, over time.
import {Chart} from "../chart";
import {percent, UNKNOWN} from "../format";
import {flopRate, scaled, utilisationOf} from "../mfu";
import {Panel} from "../panel";
import type {AllSeries, RunView} from "../protocol";
import * as store from "../store";

function Content({view, series}: {view: RunView; series: AllSeries}) {
  const peak = view.run.peak_flops_per_second;
  const last = series.flops_per_second.last.at(-1) ?? 0;
  const share = utilisationOf(view);
  if (share === null) {
    return (
      <>
        <p>The model does <strong>{flopRate(last)}</strong>. The peak of the workers' devices is
          {" "}{UNKNOWN}, so their utilisation is too: the plan of a job has the peak only for the
          built-in trainer, on a machine whose speed was measured.</p>
        <Chart name="Model FLOPs per second over time" series={series}
          show={(v) => flopRate(v ?? 0)}
          curves={[{label: "Model FLOPs", columns: series.flops_per_second, colour: "good"}]} />
      </>
    );
  }
  return (
    <>
      <p><strong>{percent(share)}</strong>: the model does {flopRate(last)}, and the peak of all
        workers is {flopRate(peak)}.</p>
      <Chart name="Model FLOPs utilisation over time" series={series}
        show={(v) => percent(v ?? 0)} curves={[{label: "Utilisation",
          columns: scaled(series.flops_per_second, 1 / peak), colour: "good"}]} />
    </>
  );
}

export function MfuPanel() {
  const view = store.view.value;
  const series = view?.series;
  const empty = series === undefined || series.flops_per_second.index.length > 0 ? null : {
    reason: "No worker has reported the model FLOPs of its steps. The built-in trainer does, and " +
      "a command can report them through the worker API (longhaul_step):",
    command: "longhaul run --help",
  };
  return (
    <Panel id="mfu" title="Model FLOPs utilisation" ready={view !== null} empty={empty}>
      {series !== undefined && <Content view={view!} series={series} />}
    </Panel>
  );
}
