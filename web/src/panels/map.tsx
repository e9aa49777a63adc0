import {useEffect, useRef, useState} from "preact/hooks";

import {useCanvasWidth} from "../canvas_width";
import type {NodeColumns} from "../cluster_protocol";
import {cluster} from "../cluster_store";
import {count, foreign, number, plural} from "../format";
import {drawMap, toneOfCell} from "../map_draw";
import {layOut, nodeAt, type MapLayout} from "../map_layout";
import {Mark, toneOfNode, type Tone} from "../mark";
import {NodeActs} from "../node_acts";
import {Panel} from "../panel";
import {may} from "../session";
import {themeVersion} from "../theme";

const MOST_LISTED = 100;

const LEGEND: [Tone, string][] = [
  ["good", "works"], ["off", "ready, without work"], ["change", "draining or cordoned"],
  ["warn", "suspect"], ["bad", "down or absent"],
];

function conditionOf(nodes: NodeColumns, node: number): string {
  return nodes.conditions[nodes.condition[node]!]!;
}

function describe(nodes: NodeColumns, node: number): string {
  if (node < 0 || node >= nodes.name.length) return "";
  const job = nodes.job[node]!;
  const reservation = nodes.reservation[node]!;
  return [
    foreign(nodes.name[node]!),
    foreign(nodes.places[nodes.place[node]!]!),
    foreign(conditionOf(nodes, node)),
    `${number(nodes.used[node]!)} of ${nodes.slots[node]} slots used`,
    job >= 0 && `job ${foreign(nodes.jobs[job]!)}`,
    reservation >= 0 && `reserved: ${foreign(nodes.reservations[reservation]!)}`,
  ].filter(Boolean).join(", ");
}

// Nodes by condition: "4,987 ready, 3 down".
function conditions(nodes: NodeColumns): string {
  const numbers = nodes.conditions.map(() => 0);
  for (const condition of nodes.condition) numbers[condition]! += 1;
  return nodes.conditions.map((name, i) => `${count(numbers[i]!)} ${foreign(name)}`).join(", ");
}

function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

const MOVES: Record<string, (node: number, across: number) => number> = {
  ArrowRight: (node) => node + 1,
  ArrowLeft: (node) => node - 1,
  ArrowDown: (node, across) => node + across,
  ArrowUp: (node, across) => node - across,
};

// The node that the reader may act on. Moving the pointer does not change it.
function Chosen({nodes, name}: {nodes: NodeColumns; name: string}) {
  if (!may("administer")) return null;
  const node = nodes.name.indexOf(name);
  if (node < 0) return <p class="soft">Click on a node, or press Enter, to act on it.</p>;
  return (
    <p id="chosen" class="acts">
      <bdi>{describe(nodes, node)}</bdi>{" "}
      <NodeActs node={name} condition={conditionOf(nodes, node)} />
    </p>
  );
}

function NodeMap({nodes}: {nodes: NodeColumns}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const layout = useRef<MapLayout | null>(null);
  const width = useCanvasWidth(canvas);
  const [cursor, setCursor] = useState(-1);
  const [chosen, setChosen] = useState("");
  const theme = themeVersion.value;
  useEffect(() => {
    const element = canvas.current!;
    if (width === 0) return;
    layout.current = layOut(nodes, width);
    element.style.height = `${layout.current.height}px`;
    drawMap(element, nodes, layout.current, cursor);
  }, [nodes, width, cursor, theme]);
  const choose = (node: number) => {
    if (may("administer") && node >= 0) setChosen(nodes.name[node] ?? "");
  };
  const move = (event: KeyboardEvent) => {
    if (event.key === "Enter") return choose(cursor);
    const next = MOVES[event.key]?.(cursor, 10);
    if (next === undefined) return;
    event.preventDefault();
    setCursor(Math.min(nodes.name.length - 1, Math.max(0, next)));
  };
  return (
    <>
      <div class="map-holder" tabIndex={0} role="group" onKeyDown={move}
        aria-label={`Map of ${plural(nodes.name.length, "node")}: ${conditions(nodes)}. ` +
          `Use the arrow keys to read nodes${may("administer") ? ", Enter to choose one" : ""}.`}>
        <canvas class="map" ref={canvas} onMouseMove={(event) => {
          if (layout.current === null) return;
          setCursor(nodeAt(layout.current, event.offsetX, event.offsetY));
        }} onClick={() => choose(cursor)} />
      </div>
      <p class="cursor" role="status"><bdi>{describe(nodes, cursor) || "\u00a0"}</bdi></p>
      <Chosen nodes={nodes} name={chosen} />
    </>
  );
}

function Places({nodes}: {nodes: NodeColumns}) {
  const rows = nodes.places.map((name) => ({name, nodes: 0, working: 0, slots: 0, used: 0}));
  nodes.place.forEach((place, node) => {
    const row = rows[place]!;
    row.nodes += 1;
    row.working += toneOfCell(nodes, node) === "good" ? 1 : 0;
    row.slots += nodes.slots[node]!;
    row.used += nodes.used[node]!;
  });
  return (
    <table>
      <thead><tr><th>Place</th><th class="number">Nodes</th><th class="number">With work</th>
        <th class="number">Slots</th><th class="number">Slots used</th></tr></thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.name}>
            <td><bdi>{foreign(row.name) || "no place"}</bdi></td>
            <td class="number">{count(row.nodes)}</td>
            <td class="number">{count(row.working)}</td>
            <td class="number">{count(row.slots)}</td>
            <td class="number">{number(row.used, 6)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function PlacesTable({nodes}: {nodes: NodeColumns}) {
  const [open, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen((event.target as HTMLDetailsElement).open)}>
      <summary>The map as a table</summary>
      {open && (
        <div class="scroll" tabIndex={0} role="group" aria-label="The map as a table">
          <Places nodes={nodes} />
        </div>
      )}
    </details>
  );
}

// What is broken, and where: the nodes that are not ready.
function NotReady({nodes}: {nodes: NodeColumns}) {
  const all = nodes.name.map((_, node) => node)
    .filter((node) => toneOfNode(conditionOf(nodes, node)) !== "good");
  if (all.length === 0) return <p>Every node is ready.</p>;
  return (
    <>
      <h3>Nodes that are not ready</h3>
      <div class="scroll" tabIndex={0} role="group" aria-label="Nodes that are not ready">
        <table id="not-ready">
          <thead><tr><th>Node</th><th>Condition</th><th>Place</th>
            {may("administer") && <th>Act</th>}</tr></thead>
          <tbody>
            {all.slice(0, MOST_LISTED).map((node) => (
              <tr key={nodes.name[node]} tabIndex={0}>
                <td><bdi>{foreign(nodes.name[node]!)}</bdi></td>
                <td><Mark tone={toneOfNode(conditionOf(nodes, node))}
                  word={foreign(conditionOf(nodes, node))} /></td>
                <td><bdi>{foreign(nodes.places[nodes.place[node]!]!) || "no place"}</bdi></td>
                {may("administer") && (
                  <td>
                    <NodeActs node={nodes.name[node]!} condition={conditionOf(nodes, node)} />
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {all.length > MOST_LISTED && (
        <p class="soft">The first {MOST_LISTED} of {count(all.length)} such nodes.</p>
      )}
    </>
  );
}

export function MapPanel() {
  const view = cluster.value;
  const nodes = view?.nodes;
  const empty = nodes === undefined || nodes.name.length > 0 ? null
    : {reason: "No node has joined yet. On each machine:", command: "longhaul agent --help"};
  return (
    <Panel id="map" title="Nodes" wide ready={view !== null} empty={empty}>
      {nodes !== undefined && (
        <>
          <p id="map-summary">
            {plural(nodes.name.length, "node")}: {conditions(nodes)}.{" "}
            {number(sum(nodes.used), 7)} of {count(sum(nodes.slots))} slots used.
          </p>
          <p class="legend">
            {LEGEND.map(([tone, word]) => <Mark key={tone} tone={tone} word={word} />)}
          </p>
          <NodeMap nodes={nodes} />
          <PlacesTable nodes={nodes} />
          <NotReady nodes={nodes} />
        </>
      )}
    </Panel>
  );
}
