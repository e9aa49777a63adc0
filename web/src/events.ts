// A view after one more event of the stream. Pure, but for the curves, which are extended in place.
import {isOver} from "./protocol";
import type {RunView, SnapshotEvent, SnapshotTier, StateEvent, StepEvent} from "./protocol";
import {addSample} from "./series";

function extendCurves(view: RunView, atMs: number, {step}: StepEvent) {
  const series = view.series;
  if (series === undefined) return;
  const offset = atMs - series.from_ms;
  if (step.has_loss) addSample(series.loss, offset, step.step, step.loss);
  if (step.has_validation_loss) {
    addSample(series.validation_loss, offset, step.step, step.validation_loss);
  }
  if (step.tokens_per_second > 0) {
    addSample(series.tokens_per_second, offset, step.step, step.tokens_per_second);
  }
  if (step.flops_per_second > 0) {
    addSample(series.flops_per_second, offset, step.step, step.flops_per_second);
  }
  addSample(series.goodput, offset, step.step, step.goodput);
}

// What a fault would lose after `step`: the step itself has just ended.
function lossAt(view: RunView, step: number): RunView["loss_now"] {
  if (view.loss_now === null) return null;
  const steps = Math.max(0, step - view.loss_now.step);
  return {...view.loss_now, steps, seconds: steps * view.run.seconds_per_step};
}

export function withStep(view: RunView, event: StepEvent): RunView {
  const {step} = event;
  extendCurves(view, Math.floor(event.at_ns / 1e6), event);
  const run = {
    ...view.run,
    step: step.step,
    attempt: step.attempt,
    highest_step: Math.max(view.run.highest_step, step.step),
    tokens_per_second: step.tokens_per_second,
    eta_seconds: step.eta_seconds,
    loss: step.has_loss ? step.loss : view.run.loss,
  };
  return {...view, run, loss_now: lossAt(view, step.step)};
}

// The controller of `longhaul run` ends soon after its job, so this event may be the last answer.
export function withState(view: RunView, {at_ns, state}: StateEvent): RunView {
  const run = {...view.run, state: state.state, reason: state.reason};
  if (!isOver(state.state)) return {...view, run};
  return {...view, run: {...run, ended_at_ms: Math.floor(at_ns / 1e6)}, loss_now: null};
}

const TIER_NAMES: Record<string, string> = {memory: "memory", disk: "disk", shared: "second tier"};

export function withSnapshot(view: RunView, {at_ns, snapshot}: SnapshotEvent): RunView {
  const before = view.snapshots.find(({tier}) => tier === snapshot.tier);
  const tier: SnapshotTier = {
    tier: snapshot.tier,
    step: snapshot.step,
    at_ms: Math.floor(at_ns / 1e6),
    seconds: snapshot.seconds,
    bytes: snapshot.bytes,
    count: (before?.count ?? 0) + 1,
  };
  const snapshots = [...view.snapshots.filter((each) => each !== before), tier]
    .sort((a, b) => (a.tier < b.tier ? -1 : 1));
  if (view.loss_now === null || snapshot.step <= view.loss_now.step) return {...view, snapshots};
  const loss_now = {...view.loss_now, step: snapshot.step,
    tier: TIER_NAMES[snapshot.tier] ?? snapshot.tier};
  return {...view, snapshots, loss_now: lossAt({...view, loss_now}, view.run.step)};
}
