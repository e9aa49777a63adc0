import {age, bytes, clock, count, duration, foreign} from "../format";
import {Panel} from "../panel";
import type {SnapshotTier} from "../protocol";
import * as store from "../store";

const PURPOSE: Record<string, string> = {
  memory: "A snapshot in memory survives the loss of a worker, and of a node if another has it.",
  disk: "A snapshot on disk survives the loss of all nodes.",
  shared: "A snapshot on the second tier survives the loss of the first storage.",
};

function purposes(tiers: SnapshotTier[]): string {
  return tiers.map(({tier}) => PURPOSE[tier] ?? "")
    .filter(Boolean).join(" ");
}

function Row({tier}: {tier: SnapshotTier}) {
  const ago = (store.lastMs.value - tier.at_ms) / 1e3;
  return (
    <tr>
      <td>{foreign(tier.tier)}</td>
      <td class="number" data-tier={tier.tier}>{count(tier.step)}</td>
      <td class="number">{clock(tier.at_ms)}</td>
      <td class="number">{age(ago)}</td>
      <td class="number">{tier.seconds > 0 ? duration(tier.seconds) : "not measured"}</td>
      <td class="number">{tier.bytes > 0 ? bytes(tier.bytes) : "not measured"}</td>
      <td class="number">{count(tier.count)}</td>
    </tr>
  );
}

export function SnapshotsPanel() {
  const view = store.view.value;
  const interval = view?.run.snapshot_interval_steps ?? 0;
  const empty = view === null || view.snapshots.length > 0 ? null : {
    reason: interval > 0 ? `No snapshot yet: the first is due after ${count(interval)} steps.`
      : "No snapshot yet. A command takes snapshots through the worker API (docs/worker-api.md).",
  };
  return (
    <Panel id="snapshots" title="Snapshots" ready={view !== null} empty={empty}>
      {view !== null && (
        <>
          {interval > 0 && (
            <p class="soft">Every {count(interval)} steps:{" "}
              {foreign(view.run.snapshot_interval_reason)}</p>
          )}
          <div class="scroll" tabIndex={0} role="group" aria-label="Snapshots by tier">
            <table>
              <thead><tr><th>Tier</th><th class="number">Newest step</th><th class="number">At</th>
                <th class="number">Age</th><th class="number">Took</th><th class="number">Size</th>
                <th class="number">Number</th></tr></thead>
              <tbody>{view.snapshots.map((tier) => <Row key={tier.tier} tier={tier} />)}</tbody>
            </table>
          </div>
          <p class="soft">{purposes(view.snapshots)}</p>
        </>
      )}
    </Panel>
  );
}
