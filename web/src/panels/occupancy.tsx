// How much of the cluster is in use, now and over time, and in what pieces the rest is free.
import type {ClusterView, OccupancyColumns} from "../cluster_protocol";
import {cluster} from "../cluster_store";
import {number, percent} from "../format";
import {Panel} from "../panel";
import {sharesOf, type Shares} from "../shares";
import {SharesChart} from "../shares_chart";

type Part = "in_use" | "fragments" | "idle" | "unavailable";

// Each with its pattern, from the lowest up.
const PARTS: [Part, string, string][] = [
  ["in_use", "productive", "in use"],
  ["fragments", "recovery", "free in fragments"],
  ["idle", "input", "free on idle nodes"],
  ["unavailable", "lost", "not available"],
];

function partsOf(occupancy: OccupancyColumns): Shares {
  const {from_ms, width_ms, in_use} = occupancy;
  return sharesOf(from_ms, width_ms, in_use.length, PARTS.map(([part, id, title]) => (
    {id, title, amounts: occupancy[part].map((amount) => amount ?? 0)})));
}

// Of the newest period.
function Present({occupancy}: {occupancy: OccupancyColumns}) {
  const now = Object.fromEntries(PARTS.map(([part]) => [part, occupancy[part].at(-1) ?? 0])) as
    Record<Part, number>;
  const all = PARTS.reduce((sum, [part]) => sum + now[part], 0);
  const free = now.fragments + now.idle;
  return (
    <>
      <p>
        <strong id="in-use">{percent(all > 0 ? now.in_use / all : 0)}</strong> of{" "}
        {number(all, 7)} accelerators are in use.{" "}
        {free > 0 && (
          <span id="fragments">
            Of the {number(free, 7)} that are free on ready nodes,{" "}
            {percent(now.fragments / free)} are fragments: their nodes are partly in use, so a job
            that needs whole nodes cannot have them.
          </span>
        )}
      </p>
      <p class="legend" aria-hidden="true">
        {PARTS.map(([part, id, title]) => (
          <span key={part} class="share"><span class={`swatch ${id}`} /> {title}{" "}
            {number(now[part], 7)}</span>
        ))}
      </p>
    </>
  );
}

function reasonOf(view: ClusterView | null) {
  return view === null || view.occupancy !== null ? null
    : {reason: "No node has joined yet.", command: "longhaul nodes"};
}

export function OccupancyPanel() {
  const view = cluster.value;
  const occupancy = view?.occupancy ?? null;
  return (
    <Panel id="occupancy" title="Use of the accelerators" wide ready={view !== null}
      empty={reasonOf(view)}>
      {occupancy !== null && (
        <>
          <Present occupancy={occupancy} />
          <SharesChart id="occupancy-table" name="Use of the accelerators over time"
            unit="Accelerators" shares={partsOf(occupancy)} endMs={view!.now_ms}
            amount={(value) => number(value, 7)} />
        </>
      )}
    </Panel>
  );
}
