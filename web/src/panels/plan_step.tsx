// Where the time of the chosen layout's step goes, its memory, and what would change the step.
import {bytes, duration, foreign, number, percent, words} from "../format";
import {Panel} from "../panel";
import type {PlannedLayout, PlanResult} from "../plan_protocol";
import {chosenLayout, shownPlan} from "../plan_store";

// The parts that take any of the whole, the largest first.
function partsOf(parts: Record<string, number>): [string, number][] {
  return Object.entries(parts).filter(([name, value]) => name !== "total" && value > 0)
    .sort((a, b) => b[1] - a[1]);
}

function Parts({parts, whole, text, title}:
  {parts: [string, number][]; whole: number; text: (value: number) => string; title: string}) {
  return (
    <table>
      <thead><tr><th>{title}</th><td /><th class="number">Amount</th>
        <th class="number">Share</th></tr></thead>
      <tbody>
        {parts.map(([name, value]) => (
          <tr key={name}>
            <td>{words(name)}</td>
            <td>
              <div class="bar" aria-hidden="true">
                <span class="productive" style={{width: `${(100 * value) / whole}%`}} />
              </div>
            </td>
            <td class="number">{text(value)}</td>
            <td class="number">{percent(value / whole)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function layoutShown(): PlannedLayout | null {
  return shownPlan()?.result.best[chosenLayout.value] ?? null;
}

export function PlanStepPanel() {
  const layout = layoutShown();
  if (layout === null) return null;
  const parts = partsOf(layout.breakdown_seconds);
  const [first] = parts;
  return (
    <Panel id="plan-step" title="The step" ready>
      {first !== undefined && (
        <p id="plan-limit">
          Most of the step is {words(first[0])}: {percent(first[1] / layout.step_seconds)} of{" "}
          {duration(layout.step_seconds)}.
        </p>
      )}
      <Parts title="Part" parts={parts} whole={layout.step_seconds} text={partOfStep} />
    </Panel>
  );
}

// Parts of less than a millisecond differ, too.
function partOfStep(seconds: number): string {
  return seconds < 0.01 ? `${number(seconds * 1e3, 3)} ms` : duration(seconds);
}

function capacityOf(layout: PlannedLayout): number {
  return layout.memory_share > 0 ? layout.device_memory_bytes / layout.memory_share
    : layout.device_memory_bytes;
}

// Of the stage that takes the most.
export function PlanMemoryPanel() {
  const layout = layoutShown();
  if (layout === null || layout.stages.length === 0) return null;
  const totals = layout.stages.map((stage) => stage.memory_bytes.total ?? 0);
  const fullest = totals.indexOf(Math.max(...totals));
  const stage = layout.stages[fullest]!;
  return (
    <Panel id="plan-memory" title="Memory of an accelerator" ready>
      <p>
        {layout.stages.length > 1 && `Stage ${fullest + 1} of ${layout.stages.length} takes most: `}
        {bytes(stage.memory_bytes.total ?? 0)} of {bytes(capacityOf(layout))}.
      </p>
      <Parts title="Part" parts={partsOf(stage.memory_bytes)}
        whole={stage.memory_bytes.total ?? 1} text={bytes} />
    </Panel>
  );
}

// Of a change that cannot run or does not fit, there is nothing.
function change(share: number): string {
  return `${share > 0 ? "+" : "−"}${percent(Math.abs(share))}`;
}

export function PlanInfluencesPanel() {
  const result: PlanResult | undefined = shownPlan()?.result;
  const all = result?.influences ?? [];
  if (all.length === 0) return null;
  return (
    <Panel id="plan-influences" title="What would change the throughput" wide ready>
      <p class="soft">Of the best layout, with one value changed at a time.</p>
      <table>
        <thead><tr><th>Change</th><th class="number">Throughput</th></tr></thead>
        <tbody>
          {all.map(({what, low, high}) => (
            <tr key={what}>
              <td>{foreign(what)}</td>
              <td class="number">
                {[low, high].filter((share) => share !== 0).map(change).join(" / ") || "—"}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}
