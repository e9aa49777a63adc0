// The best layouts of the chosen plan, and the plans of this page beside each other.
import {useSignal} from "@preact/signals";

import {copyText} from "../clipboard";
import {bytes, count, duration, foreign, number, percent} from "../format";
import {Mark} from "../mark";
import {Panel} from "../panel";
import type {PlannedLayout, PlannedRange, PlanResult} from "../plan_protocol";
import {
  chosenLayout, chosenPlan, choosePlan, planCommand, plans, shownPlan, type Plan,
} from "../plan_store";

// "tensor=2,pipeline=4" with a place to break the line after each comma.
function Layout({text}: {text: string}) {
  const parts = foreign(text).split(",");
  return <code>{parts.map((part, i) => [part, i + 1 < parts.length && [",", <wbr />]])}</code>;
}

function isChosen(chosen: boolean) {
  return chosen ? "true" as const : undefined;
}

function timeOf(layout: PlannedLayout): string {
  return `${duration(layout.step_seconds_low)} to ${duration(layout.step_seconds_high)}`;
}

function days({low, high}: PlannedRange): string {
  return `${number(low, 3)} to ${number(high, 3)}`;
}

function certainty({search}: PlanResult): string {
  const layouts = `${count(search.points)} layouts were considered`;
  if (search.finished) return `${layouts}: no other one is better.`;
  return `${layouts} before the time was over: no unseen one is better by more than ` +
    `${percent(search.gap)}.`;
}

function Row({layout, place}: {layout: PlannedLayout; place: number}) {
  return (
    <tr tabIndex={0} data-layout={place} aria-current={isChosen(chosenLayout.value === place)}
      onClick={() => (chosenLayout.value = place)}
      onKeyDown={(event) => event.key === "Enter" && (chosenLayout.value = place)}>
      <td class="number">{place + 1}</td>
      <td><Layout text={layout.layout} /></td>
      <td class="number">{duration(layout.step_seconds)}</td>
      <td class="number">{timeOf(layout)}</td>
      <td class="number">{count(Math.round(layout.tokens_per_second_per_device))}</td>
      <td class="number">{percent(layout.mfu)}</td>
      <td class="number">{bytes(layout.peak_memory_bytes)} ({percent(layout.memory_share)})</td>
      {layout.run && <td class="number">{days(layout.run.days)}</td>}
      <td>{layout.frameworks.join(", ") || "none"}</td>
    </tr>
  );
}

function Command({plan}: {plan: Plan}) {
  const copied = useSignal("");
  const layout = plan.result.best[chosenLayout.value]?.layout;
  const command = planCommand(plan.asked, layout);
  return (
    <p class="command">
      The chosen layout in a shell: <code id="plan-command">$ {command}</code>{" "}
      <button type="button" onClick={() => void copyText(command, copied)}>Copy</button>{" "}
      <span role="status">{copied.value}</span>
    </p>
  );
}

function Content({plan}: {plan: Plan}) {
  const {result} = plan;
  if (result.best.length === 0) {
    return (
      <p id="plan-obstacle">
        <Mark tone="bad" word="No layout is proposed." />{" "}
        <bdi>{foreign(result.obstacle?.text ?? "", 2_000)}</bdi>
      </p>
    );
  }
  return (
    <>
      <p id="plan-summary">
        <bdi>{foreign(result.model)}</bdi>, {count(result.parameters)} parameters, on{" "}
        {count(result.devices)} × {foreign(result.device)}: {count(result.global_batch)} sequences
        of {count(result.sequence_length)} tokens a step. Predicted, not measured.{" "}
        {certainty(result)}
      </p>
      <div class="scroll" tabIndex={0} role="group" aria-label="The best layouts">
        <table>
          <thead><tr><th class="number">Place</th><th>Layout</th>
            <th class="number">Step</th><th class="number">Range</th>
            <th class="number">Tokens/s each</th><th class="number">MFU</th>
            <th class="number">Memory</th>
            {result.best[0]!.run && <th class="number">Days</th>}<th>Run by</th></tr></thead>
          <tbody>
            {result.best.map((layout, place) =>
              <Row key={layout.layout} layout={layout} place={place} />)}
          </tbody>
        </table>
      </div>
      <p class="soft">Click on a layout, or press Enter, to see where its time goes.</p>
      <Command plan={plan} />
    </>
  );
}

export function PlanLayoutsPanel() {
  const plan = shownPlan();
  if (plan === null) return null;
  return (
    <Panel id="plan-layouts" title="Best layouts" wide ready>
      <Content plan={plan} />
    </Panel>
  );
}

function ComparedRow({plan}: {plan: Plan}) {
  const {asked, result} = plan;
  const best = result.best[0];
  const cell = (text: string) => <td class="number">{text}</td>;
  return (
    <tr tabIndex={0} data-plan={plan.number}
      aria-current={isChosen(plan.number === chosenPlan.value)}
      onClick={() => choosePlan(plan.number)}
      onKeyDown={(event) => event.key === "Enter" && choosePlan(plan.number)}>
      <td><bdi>{foreign(result.model)}</bdi></td>
      <td>{count(result.devices)} × {foreign(result.device)}</td>
      {cell(count(result.global_batch))}
      <td>{[asked.precision, asked.framework, asked.fix].filter(Boolean).join(", ") || "none"}</td>
      {best === undefined ? <td colSpan={4}>No layout is proposed.</td> : (
        <>
          {cell(duration(best.step_seconds))}
          {cell(count(Math.round(best.tokens_per_second_per_device * best.devices)))}
          {cell(percent(best.mfu))}
          {cell(percent(best.memory_share))}
        </>
      )}
    </tr>
  );
}

export function PlanComparedPanel() {
  const all = plans.value;
  if (all.length < 2) return null;
  return (
    <Panel id="plan-compared" title="Plans of this page" wide ready>
      <div class="scroll" tabIndex={0} role="group" aria-label="Plans of this page">
        <table>
          <thead><tr><th>Model</th><th>Accelerators</th><th class="number">Sequences</th>
            <th>Options</th><th class="number">Step</th><th class="number">Tokens/s in all</th>
            <th class="number">MFU</th><th class="number">Memory</th></tr></thead>
          <tbody>
            {[...all].reverse().map((plan) => <ComparedRow key={plan.number} plan={plan} />)}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}
