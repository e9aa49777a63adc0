import {addressOf} from "../address";
import {faultNumber} from "../fault_store";
import {clock, count, duration, foreign, number} from "../format";
import {copied, copyCommand, explainCommand} from "../keys";
import {Mark} from "../mark";
import {Panel} from "../panel";
import type {Fault} from "../protocol";
import * as store from "../store";
import {showFault} from "../views";
import {noFault} from "./fault";

function recovery(fault: Fault) {
  const recovered = fault.new_step_at_ms || fault.first_step_at_ms;
  if (recovered > 0) {
    const seconds = (recovered - fault.happened_at_ms) / 1e3;
    return <Mark tone="good" word={`in ${duration(seconds)}`} />;
  }
  if (store.over.value) return <Mark tone="off" word="the run ended first" />;
  const since = (store.lastMs.value - fault.happened_at_ms) / 1e3;
  return <Mark tone="warn" word={`since ${duration(Math.max(0, since))}`} />;
}

function Row({fault}: {fault: Fault}) {
  const current = store.shown.value === "fault" && faultNumber.value === fault.number;
  const address = addressOf({view: "fault", run: store.runId.value, fault: fault.number});
  return (
    <tr tabIndex={0} data-fault={fault.number} aria-current={current ? "true" : undefined}
      onKeyDown={(event) => {
        if (event.key === "Enter" && event.target === event.currentTarget) {
          showFault(fault.number);
        }
      }}>
      <td class="number"><a href={address}>{fault.number}</a></td>
      <td>{clock(fault.happened_at_ms)}</td>
      <td>
        <bdi>{foreign(fault.what)}</bdi>
        {fault.injected && <span class="soft"> (injected)</span>}
      </td>
      <td><bdi>{fault.node === "" ? "unknown" : foreign(fault.node)}</bdi></td>
      <td>{recovery(fault)}</td>
      <td><bdi>{fault.action === "" ? "not decided yet" : foreign(fault.action)}</bdi></td>
      <td class="number">{count(fault.lost_steps)}</td>
      <td class="number" data-cost={fault.lost_rank_seconds}>
        {fault.first_step_at_ms === 0 ? "not known yet" : number(fault.lost_rank_seconds)}
      </td>
    </tr>
  );
}

export function FaultsPanel() {
  const view = store.view.value;
  const empty = view === null || view.faults.length > 0 ? null
    : noFault();
  return (
    <Panel id="faults" title="Faults" wide ready={view !== null} empty={empty}>
      {view !== null && (
        <>
          <div class="scroll" tabIndex={0} role="group" aria-label="Faults, newest first">
            <table>
              <thead><tr><th class="number">No.</th><th>At</th><th>What</th><th>Node</th>
                <th>Recovered</th><th>Decision</th><th class="number">Steps lost</th>
                <th class="number">Cost, rank seconds</th></tr></thead>
              <tbody>
                {[...view.faults].reverse().map((fault) => (
                  <Row key={fault.number} fault={fault} />
                ))}
              </tbody>
            </table>
          </div>
          {view.faults_total > view.faults.length && (
            <p class="soft">
              The newest {view.faults.length} of {count(view.faults_total)} faults.
            </p>
          )}
          <p class="command">
            <code>$ {explainCommand()}</code>{" "}
            <button type="button" onClick={() => void copyCommand()}>Copy</button>{" "}
            <span role="status">{copied.value}</span>
          </p>
        </>
      )}
    </Panel>
  );
}
