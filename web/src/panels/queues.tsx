import type {Queue} from "../cluster_protocol";
import {cluster} from "../cluster_store";
import {count, foreign, number} from "../format";
import {Panel} from "../panel";

function amount(value: number | null): string {
  return value === null ? "unlimited" : number(value, 7);
}

// Use within the guarantee is filled, borrowed use hatched; a line marks the guarantee.
function Bar({queue, whole}: {queue: Queue; whole: number}) {
  if (whole <= 0) return null;
  const share = (value: number) => `${Math.min(100, (100 * value) / whole)}%`;
  const guarantee = queue.guarantee;
  return (
    <div class="bar" aria-hidden="true">
      <span class="productive" style={{width: share(queue.usage - queue.borrowed)}} />
      <span class="recovery" style={{width: share(queue.borrowed)}} />
      {guarantee !== null && guarantee > 0 && (
        <span class="mark-line" style={{left: share(guarantee)}} />
      )}
    </div>
  );
}

function Row({queue, whole}: {queue: Queue; whole: number}) {
  const idle = Math.max(0, (queue.guarantee ?? 0) - queue.usage);
  return (
    <tr tabIndex={0} data-queue={queue.name}>
      <td><bdi>{foreign(queue.name)}</bdi></td>
      <td><Bar queue={queue} whole={whole} /></td>
      <td class="number">{number(queue.usage, 7)}</td>
      <td class="number">{amount(queue.guarantee)}</td>
      <td class="number">{number(queue.borrowed, 7)}</td>
      <td class="number">{number(idle, 7)}</td>
      <td class="number">{amount(queue.limit)}</td>
      <td class="number">{count(queue.running)}</td>
      <td class="number">{count(queue.waiting)}</td>
    </tr>
  );
}

export function QueuesPanel() {
  const view = cluster.value;
  const queues = view?.queues ?? [];
  const whole = view === null ? 0 : view.nodes.slots.reduce((total, slots) => total + slots, 0);
  const empty = view === null || queues.length > 0 ? null
    : {reason: "There are no queues before a node has joined."};
  return (
    <Panel id="queues" title="Queues, in accelerators" wide ready={view !== null} empty={empty}>
      <p class="legend" aria-hidden="true">
        <span><span class="swatch productive" /> used of the guarantee</span>
        <span><span class="swatch recovery" /> borrowed</span>
        <span>| guarantee</span>
      </p>
      <div class="scroll" tabIndex={0} role="group" aria-label="Queues">
        <table>
          <thead><tr><th>Queue</th><th>Use</th><th class="number">Used</th>
            <th class="number">Guarantee</th><th class="number">Borrowed</th>
            <th class="number">Guarantee not used</th><th class="number">Limit</th>
            <th class="number">Jobs run</th><th class="number">Jobs wait</th></tr></thead>
          <tbody>
            {queues.map((queue) => <Row key={queue.name} queue={queue} whole={whole} />)}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}
