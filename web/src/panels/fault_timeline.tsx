// The recovery from a fault, stage by stage. Zero is the fault. While the fault is open, the stage
// that is under way is a bar that grows.
import {faultFailure, faultView} from "../fault_store";
import type {FaultStory, Stage} from "../fault_protocol";
import {duration, foreign, offset} from "../format";
import {Mark} from "../mark";
import {Panel} from "../panel";
import * as store from "../store";
import {emptyFault} from "./fault";

// The stages in order: the name of the moment that ends each, and what happens until then.
const STAGES: [string, string, string][] = [
  ["detected", "Detection", "until the fault's event was in the log"],
  ["decided", "Diagnosis and decision", "evidence is gathered, and the controller decides"],
  ["processes started", "Restart", "the workers are ended and start again"],
  ["in rendezvous", "Start-up", "the programs load until all are in the rendezvous"],
  ["group formed", "Rendezvous", "the process group is formed"],
  ["state restored", "Restore", "each worker reads its state"],
  ["first step done", "First step", "of the new attempt"],
  ["first new step done", "Steps done again", "until a step that is new"],
];

interface Row {
  title: string;
  text: string;
  from: number;       // seconds after the fault
  took: number;
  budget: number;     // 0: none
  state: "done" | "running" | "absent";
}

export function rowsOf(fault: FaultStory, now: number): Row[] {
  const reached = new Map(fault.stages.map((stage): [string, Stage] => [stage.name, stage]));
  const last = fault.stages[fault.stages.length - 1];
  const lastIndex = STAGES.findIndex(([name]) => name === last?.name);
  const rows = STAGES.map(([name, title, text], i): Row => {
    const stage = reached.get(name);
    if (stage !== undefined) {
      return {title, text, from: stage.at_seconds - stage.took_seconds, took: stage.took_seconds,
        budget: stage.budget_seconds, state: "done"};
    }
    const running = fault.open && i === lastIndex + 1;
    const from = last?.at_seconds ?? 0;
    return {title, text, from, took: running ? Math.max(0, now - from) : 0, budget: 0,
      state: running ? "running" : "absent"};
  });
  const known = new Set(STAGES.map(([name]) => name));
  // A newer controller may have more stages.
  for (const stage of fault.stages.filter((each) => !known.has(each.name))) {
    rows.push({title: stage.name, text: "", from: stage.at_seconds - stage.took_seconds,
      took: stage.took_seconds, budget: stage.budget_seconds, state: "done"});
  }
  return rows;
}

function took(row: Row, open: boolean) {
  if (row.state === "running") {
    return <Mark tone="warn" word={`since ${duration(row.took)}`} />;
  }
  if (row.state === "absent") return <span class="soft">{open ? "not yet" : "not reached"}</span>;
  const late = row.budget > 0 && row.took > row.budget;
  return <>{offset(row.took).slice(1)}{late && <span class="soft"> (goal {
    offset(row.budget).slice(1)})</span>}</>;
}

function Bar({row, whole}: {row: Row; whole: number}) {
  if (row.state === "absent" || whole <= 0) return <div class="lane" />;
  const left = Math.min(100, (100 * row.from) / whole);
  const width = Math.min(100 - left, (100 * row.took) / whole);
  return (
    <div class="lane">
      <span class={`stage ${row.state}`} style={{left: `${left}%`, width: `${width}%`}} />
    </div>
  );
}

function Timeline({fault}: {fault: FaultStory}) {
  const open = fault.open && !store.over.value;
  const now = (store.lastMs.value - fault.happened_at_ms) / 1e3;
  const rows = rowsOf({...fault, open}, now);
  const whole = Math.max(...rows.map((row) => row.from + row.took));
  return (
    <table class="timeline">
      <thead><tr><th>Stage</th><th class="number">Began</th><th class="number">Took</th>
        <th>From the fault to {offset(whole)}</th></tr></thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.title} tabIndex={0} data-stage={row.title} data-state={row.state}>
            <td>{foreign(row.title)} <span class="soft">{row.text}</span></td>
            <td class="number">{row.state === "absent" ? "" : offset(row.from)}</td>
            <td class="number">{took(row, open)}</td>
            <td aria-hidden="true"><Bar row={row} whole={whole} /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function FaultTimelinePanel() {
  const view = faultView.value;
  const empty = emptyFault();
  return (
    <Panel id="fault-timeline" title="Recovery" wide ready={view !== null || empty !== null}
      empty={empty} failure={faultFailure.value}>
      {view !== null && <Timeline fault={view.fault} />}
    </Panel>
  );
}
