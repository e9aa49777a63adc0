// The story of a fault in the sentences of `longhaul explain`.
import {faultFailure, faultView} from "../fault_store";
import type {FaultView} from "../fault_protocol";
import {duration} from "../format";
import {Panel} from "../panel";
import {emptyFault} from "./fault";
import {Moments, sentence} from "./moments";

function Story({view}: {view: FaultView}) {
  const fault = view.fault;
  const lines: [string, string][] = [
    ["When", fault.when_text],
    ["Detected", `${duration(fault.detection_seconds)} later. ${fault.detector}`],
    ["Cause", `${fault.class}. ${fault.cause}`],
    ["Step", fault.step_text],
    ["Cost", fault.cost_text],
  ];
  return (
    <>
      <dl class="story">
        {lines.map(([name, text]) => (
          <div key={name}><dt>{name}</dt><dd><bdi>{sentence(text)}</bdi></dd></div>
        ))}
      </dl>
      <h3>What was done</h3>
      {fault.actions.length > 0 ? <Moments moments={fault.actions} />
        : <p class="soft">Nothing is decided yet.</p>}
      {view.advice !== "" && <h3>Advice for the run</h3>}
      {view.advice !== "" && <p><bdi>{sentence(view.advice)}</bdi></p>}
    </>
  );
}

export function FaultStoryPanel() {
  const view = faultView.value;
  const empty = emptyFault();
  return (
    <Panel id="fault-story" title="What happened" ready={view !== null || empty !== null}
      empty={empty} failure={faultFailure.value}>
      {view !== null && <Story view={view} />}
    </Panel>
  );
}
