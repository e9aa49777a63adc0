// What is known about a fault: exit codes, signals and connections, stacks, and the last lines of
// the worker. States what is missing.
import {faultFailure, faultView} from "../fault_store";
import type {FaultStory, FaultView} from "../fault_protocol";
import {foreign} from "../format";
import {Panel} from "../panel";
import * as store from "../store";
import {emptyFault} from "./fault";
import {Moments, sentence} from "./moments";

function Stacks({fault}: {fault: FaultStory}) {
  if (fault.stacks.length === 0) return null;
  return (
    <>
      <h3>What the workers did, innermost call first</h3>
      {fault.stacks.map((stack) => (
        <details key={stack.rank} open={fault.stacks.length === 1 || stack.rank === fault.rank}>
          <summary>Worker {stack.rank} on <bdi>{foreign(stack.node)}</bdi></summary>
          <pre tabIndex={0}>{stack.calls.map((call) => foreign(call)).join("\n")}</pre>
        </details>
      ))}
    </>
  );
}

function Output({fault}: {fault: FaultStory}) {
  if (fault.output.length === 0) return <p class="soft">No output of the worker is known.</p>;
  return (
    <>
      {fault.output_file !== "" && <p class="soft"><bdi>{foreign(fault.output_file)}</bdi></p>}
      <pre id="fault-output" tabIndex={0} aria-label="The last lines of the worker">
        {fault.output.map((line) => sentence(line)).join("\n")}
      </pre>
    </>
  );
}

function Evidence({view}: {view: FaultView}) {
  const fault = view.fault;
  return (
    <>
      {fault.observations.length > 0 ? <Moments moments={fault.observations} />
        : <p class="soft">No event in the log concerns this fault.</p>}
      <Stacks fault={fault} />
      <h3>The last lines of worker {Math.max(0, fault.rank)}</h3>
      <Output fault={fault} />
      {view.notes.length > 0 && store.frozen.value === null && (
        <>
          <h3>What is missing</h3>
          <ul id="fault-notes">
            {view.notes.map((note, i) => <li key={i}><bdi>{sentence(note)}</bdi></li>)}
          </ul>
        </>
      )}
    </>
  );
}

export function FaultEvidencePanel() {
  const view = faultView.value;
  const empty = emptyFault();
  return (
    <Panel id="fault-evidence" title="Evidence" ready={view !== null || empty !== null}
      empty={empty} failure={faultFailure.value}>
      {view !== null && <Evidence view={view} />}
    </Panel>
  );
}
