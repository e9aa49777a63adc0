// What a reader wants to know first about a fault: what failed, where, whether it is over, and its
// cost.
import type {ComponentChildren} from "preact";

import {faultFailure, faultNumber, faultView, neighbour} from "../fault_store";
import type {FaultStory} from "../fault_protocol";
import {clock, count, duration, foreign, plural, seconds, UNKNOWN} from "../format";
import {explainCommand} from "../keys";
import {Mark} from "../mark";
import {type Empty, Panel} from "../panel";
import * as store from "../store";
import {showFault} from "../views";

// Why a run has no fault to show. The run of a report is over.
export function noFault(): Empty {
  if (store.frozen.value !== null) return {reason: "The run had no fault."};
  return {reason: "No fault so far. To see how a run recovers from one:",
    command: "longhaul run --inject FAULT"};
}

// The panels of the fault view are empty for the same reasons.
export function emptyFault(): Empty | null {
  const view = store.view.value;
  if (view === null || faultView.value !== null) return null;
  if (view.faults_total === 0) {
    return noFault();
  }
  if (store.frozen.value === null) return null;
  return {reason: "This report describes the newest faults only. To read about this one:",
    command: explainCommand()};
}

export function Fact({name, id, children}: {
  name: string; id: string; children: ComponentChildren;
}) {
  return <div class="fact"><dt>{name}</dt><dd id={id}>{children}</dd></div>;
}

function state(fault: FaultStory) {
  if (fault.recovery_seconds !== null) {
    return <Mark tone="good" word={`recovered in ${duration(fault.recovery_seconds)}`} />;
  }
  if (fault.over) return <Mark tone="good" word="over" />;
  if (!fault.open || store.over.value) return <Mark tone="bad" word="not recovered" />;
  const since = (store.lastMs.value - fault.happened_at_ms) / 1e3;
  return <Mark tone="warn" word={`in progress for ${duration(Math.max(0, since))}`} />;
}

function cost(fault: FaultStory) {
  if (fault.open) return "not known yet";
  const all = fault.lost_accelerator_seconds;
  return (
    <>
      {seconds(all ?? fault.lost_rank_seconds)}{" "}
      <span class="soft">{all === null ? "rank seconds" : "accelerator-seconds"} in all</span>
    </>
  );
}

function Neighbours() {
  const before = neighbour(-1);
  const after = neighbour(1);
  return (
    <p>
      <button type="button" disabled={before === null}
        onClick={() => showFault(before)}>Previous fault ([)</button>{" "}
      <button type="button" disabled={after === null}
        onClick={() => showFault(after)}>Next fault (])</button>
    </p>
  );
}

function Facts({fault}: {fault: FaultStory}) {
  return (
    <>
      <p class="what"><bdi>{foreign(fault.what)}</bdi>
        {fault.injected && <span class="soft"> (injected)</span>}</p>
      <dl class="facts">
        <Fact name="State" id="fault-state">{state(fault)}</Fact>
        <Fact name="At" id="fault-at">{clock(fault.happened_at_ms)}</Fact>
        <Fact name="Node" id="fault-node">
          <bdi>{fault.node === "" ? UNKNOWN : foreign(fault.node)}</bdi>
        </Fact>
        <Fact name="Worker" id="fault-rank">
          {fault.rank < 0 ? "not of one worker" : `rank ${fault.rank}`}
        </Fact>
        <Fact name="Class" id="fault-class"><bdi>{foreign(fault.class)}</bdi></Fact>
        <Fact name="Every worker lost" id="fault-cost">
          {fault.open ? "not known yet" : `${seconds(fault.cost_seconds)} s`}
        </Fact>
        <Fact name="Cost" id="fault-cost-all">{cost(fault)}</Fact>
        <Fact name="Lost work" id="fault-lost">
          {plural(fault.lost_steps, "step")}
        </Fact>
      </dl>
    </>
  );
}

export function FaultPanel() {
  const view = faultView.value;
  const total = store.view.value?.faults_total ?? 0;
  const title = faultNumber.value === null ? "Fault"
    : `Fault ${count(faultNumber.value)} of ${count(total)}`;
  const empty = emptyFault();
  return (
    <Panel id="fault" title={title} wide ready={view !== null || empty !== null} empty={empty}
      failure={faultFailure.value}>
      {view !== null && <Facts fault={view.fault} />}
      {view !== null && <Neighbours />}
    </Panel>
  );
}
