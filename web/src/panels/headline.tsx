// What a reader wants to know first: the progress, what a fault would lose, and the end.
import type {ComponentChildren} from "preact";

import {ask} from "../act";
import {canStop, scaleRun, stopRun} from "../acts";
import {costOf} from "../cost";
import {
  count, dayAndClock, duration, foreign, number, percent, plural, UNKNOWN, words,
} from "../format";
import {Mark, toneOfRun} from "../mark";
import {utilisationOf} from "../mfu";
import {Panel} from "../panel";
import type {JobSize, RunView} from "../protocol";
import {may} from "../session";
import * as store from "../store";

function Fact({name, id, children}: {name: string; id: string; children: ComponentChildren}) {
  return <div class="fact"><dt>{name}</dt><dd id={id}>{children}</dd></div>;
}

function step(view: RunView) {
  const {step: now, total_steps: total} = view.run;
  return total > 0 ? `${count(now)} of ${count(total)}` : count(now);
}

function end(view: RunView) {
  if (store.over.value) return dayAndClock(view.run.ended_at_ms);
  const eta = view.run.eta_seconds;
  if (eta < 0 || view.run.step === 0) return UNKNOWN;
  const at = store.serverNow() + eta * 1e3;
  return <>{dayAndClock(at)} <span class="soft">in {duration(eta)}</span></>;
}

function lossNow(view: RunView) {
  const loss = view.loss_now;
  if (loss === null) return store.over.value ? "nothing: it has ended" : UNKNOWN;
  const from = loss.tier === "none" ? "no snapshot yet"
    : `${plural(loss.steps, "step")} since the snapshot of step ${count(loss.step)} (${loss.tier})`;
  return <>{duration(loss.seconds)} <span class="soft">{from}</span></>;
}

function stepTime({run}: RunView) {
  if (!(run.seconds_per_step > 0)) return UNKNOWN;
  const predicted = run.predicted_step_seconds;
  if (!(predicted > 0)) return duration(run.seconds_per_step);
  const more = run.seconds_per_step / predicted - 1;
  return (
    <>
      {duration(run.seconds_per_step)}{" "}
      <span class="soft">
        predicted: {duration(predicted)} ({percent(Math.abs(more))} {more < 0 ? "less" : "more"})
      </span>
    </>
  );
}

// A short run costs a small part of an hour.
function hours(value: number): string {
  return value < 1 ? String(Number(value.toPrecision(3))) : number(value, 5);
}

function cost(view: RunView) {
  const {unit, soFar, toCome} = costOf(view);
  const rest = store.over.value ? "in all"
    : toCome === null ? "so far" : `so far, about ${hours(toCome)} to come`;
  return <>{hours(soFar)} <span class="soft">{unit} {rest}</span></>;
}

function utilisation(view: RunView) {
  const share = utilisationOf(view);
  return share === null ? UNKNOWN : percent(share);
}

// The numbers of nodes that the job can have.
function ScaleForm({view, size}: {view: RunView; size: JobSize}) {
  return (
    <form id="scale" class="acts" onSubmit={(event) => {
      event.preventDefault();
      const chosen = new FormData(event.target as HTMLFormElement).get("nodes");
      ask(scaleRun(view, Number(chosen)));
    }}>
      <label>
        Nodes at most:{" "}
        <input key={size.limit} type="number" name="nodes" required min={size.minimum} max={size.maximum}
          step={size.step} defaultValue={String(size.limit)} />
      </label>{" "}
      <button type="submit">Scale…</button>{" "}
      <span class="soft">{count(size.minimum)} to {count(size.maximum)}</span>
    </form>
  );
}

export function HeadlinePanel() {
  const view = store.view.value;
  const empty = view === null && store.runs.value?.length === 0
    ? {reason: "There is no run yet.", command: "longhaul run"} : null;
  return (
    <Panel id="headline" title="Run" wide ready={view !== null || empty !== null}
      empty={empty}>
      {view !== null && (
        <dl class="facts">
          <Fact name="State" id="fact-state">
            <Mark tone={toneOfRun(view.run.state)} word={words(view.run.state)} />
          </Fact>
          <Fact name="Step" id="fact-step">{step(view)}</Fact>
          <Fact name="Loss" id="fact-loss">
            {view.series?.loss.index.length ? number(view.run.loss) : UNKNOWN}
          </Fact>
          <Fact name="Tokens per second" id="fact-throughput">
            {view.run.tokens_per_second > 0 ? number(view.run.tokens_per_second) : UNKNOWN}
          </Fact>
          <Fact name="Time of a step" id="fact-step-time">{stepTime(view)}</Fact>
          <Fact name="Model FLOPs utilisation" id="fact-mfu">{utilisation(view)}</Fact>
          <Fact name="Goodput" id="fact-goodput">
            {view.ledger.rank_seconds > 0 ? percent(view.ledger.goodput) : UNKNOWN}
          </Fact>
          <Fact name="Cost" id="fact-cost">{cost(view)}</Fact>
          <Fact name="Faults" id="fact-faults">{count(view.faults_total)}</Fact>
          <Fact name="A fault now would lose" id="fact-loss-now">{lossNow(view)}</Fact>
          <Fact name={store.over.value ? "Ended" : "Ends"} id="fact-end">{end(view)}</Fact>
        </dl>
      )}
      {view !== null && view.run.reason !== "" && <p><bdi>{foreign(view.run.reason)}</bdi></p>}
      {view !== null && may("operate") && canStop(view) && (
        <p class="acts">
          <button type="button" id="stop" onClick={() => ask(stopRun(view))}>Stop…</button>
        </p>
      )}
      {view !== null && may("operate") && canStop(view) && view.run.size !== null && (
        <ScaleForm view={view} size={view.run.size} />
      )}
    </Panel>
  );
}
