import {count, foreign, number, shellWord} from "../format";
import {Mark, toneOfNode} from "../mark";
import {NodeActs} from "../node_acts";
import {Panel} from "../panel";
import type {Node} from "../protocol";
import {may} from "../session";
import * as store from "../store";

function ranksOf(node: Node): string {
  if (node.ranks === 1) return count(node.first_rank);
  return `${count(node.first_rank)} to ${count(node.first_rank + node.ranks - 1)}`;
}

function Row({node}: {node: Node}) {
  return (
    <tr tabIndex={0}>
      <td><bdi>{foreign(node.name)}</bdi></td>
      <td><Mark tone={toneOfNode(node.condition)} word={foreign(node.condition)} /></td>
      <td class="number">{ranksOf(node)}</td>
      <td class="number">{number(node.health, 2)}</td>
      <td><bdi>{node.last_fault === "" ? "none" : foreign(node.last_fault)}</bdi></td>
      {may("administer") && <td><NodeActs node={node.name} condition={node.condition} /></td>}
    </tr>
  );
}

export function NodesPanel() {
  const view = store.view.value;
  const empty = view === null || view.nodes.length > 0 ? null : {
    reason: store.over.value ? "The run has ended and holds no nodes."
      : "The job has no nodes yet. Why it waits:",
    command: store.over.value ? undefined : `longhaul status ${shellWord(view.run.id)} --why`,
  };
  return (
    <Panel id="nodes" title="Workers and nodes" ready={view !== null} empty={empty}>
      {view !== null && (
        <>
          <div class="scroll" tabIndex={0} role="group" aria-label="Nodes of the run">
            <table>
              <thead><tr><th>Node</th><th>Condition</th><th class="number">Ranks</th>
                <th class="number">Health</th><th>Last fault of the node</th>
                {may("administer") && <th>Act</th>}</tr></thead>
              <tbody>{view.nodes.map((node) => <Row key={node.name} node={node} />)}</tbody>
            </table>
          </div>
          {view.nodes_total > view.nodes.length && (
            <p class="soft">The first {view.nodes.length} of {count(view.nodes_total)} nodes.</p>
          )}
        </>
      )}
    </Panel>
  );
}
