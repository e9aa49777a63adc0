import {ActDialog} from "./act_dialog";
import {announcement} from "./announce";
import {age, dayAndMinute, foreign, words} from "./format";
import {readLicences} from "./frozen";
import {helpIsShown, KEYS} from "./keys";
import {Shape, type Tone} from "./mark";
import {FaultPanel} from "./panels/fault";
import {FaultEvidencePanel} from "./panels/fault_evidence";
import {FaultStoryPanel} from "./panels/fault_story";
import {FaultTimelinePanel} from "./panels/fault_timeline";
import {FaultsPanel} from "./panels/faults";
import {HeadlinePanel} from "./panels/headline";
import {LedgerPanel} from "./panels/ledger";
import {LossPanel} from "./panels/loss";
import {MapPanel} from "./panels/map";
import {MfuPanel} from "./panels/mfu";
import {MissingPanel} from "./panels/missing";
import {NodesPanel} from "./panels/nodes";
import {OccupancyPanel} from "./panels/occupancy";
import {PlanFormPanel} from "./panels/plan_form";
import {PlanComparedPanel, PlanLayoutsPanel} from "./panels/plan_layouts";
import {PlanInfluencesPanel, PlanMemoryPanel, PlanStepPanel} from "./panels/plan_step";
import {QueuesPanel} from "./panels/queues";
import {RanksPanel} from "./panels/ranks";
import {SnapshotsPanel} from "./panels/snapshots";
import {SubmitPanel} from "./panels/submit";
import {ThroughputPanel} from "./panels/throughput";
import {WaitingPanel} from "./panels/waiting";
import * as store from "./store";
import {chooseRun, showCluster, showFault, showPlan, showRun} from "./views";

const TONES: Record<store.Connection, Tone> =
  {loading: "off", live: "good", stale: "warn", failed: "bad", closed: "off"};

function ConnectionMark() {
  const connection = store.connection.value;
  const heard = connection === "live" || connection === "stale";
  const since = heard && store.shown.value !== "plan" ? `, ${age(store.ageMs.value / 1e3)}` : "";
  const ended = store.isOfRun(store.shown.value) && store.over.value;
  const report = store.frozen.value;
  if (report !== null) {
    return <span class="mark" id="connection" data-state="report">
      <Shape tone="off" /> report as of {dayAndMinute(report.view.now_ms)}</span>;
  }
  const word = connection === "live" && ended ? "ended" : connection + since;
  return (
    <span class="mark" id="connection" data-state={connection}>
      <Shape tone={TONES[connection]} /> {word}
    </span>
  );
}

function RunChoice() {
  if (store.frozen.value !== null) {
    return <strong><bdi>{foreign(store.runId.value ?? "")}</bdi></strong>;
  }
  const followed = store.view.value?.run;
  const runs = store.runs.value ?? [];
  if (runs.length === 0 || !store.isOfRun(store.shown.value)) return null;
  return (
    <label>
      Run{" "}
      <select id="runs" value={store.runId.value ?? ""}
        onChange={(event) => chooseRun((event.target as HTMLSelectElement).value)}>
        {runs.map((run) => (
          <option key={run.id} value={run.id}>
            {foreign(run.id)}, {words(run.id === followed?.id ? followed.state : run.state)}
          </option>
        ))}
      </select>
    </label>
  );
}

function Keys() {
  return (
    <section id="keys" class="panel wide" aria-labelledby="keys-heading">
      <h2 id="keys-heading">Keys</h2>
      <dl class="keys">
        {KEYS.map(([key, effect]) => (
          <div key={key}><dt><kbd>{key}</kbd></dt><dd>{effect}</dd></div>
        ))}
      </dl>
    </section>
  );
}

function Closed() {
  return (
    <section id="closed" class="panel wide" aria-labelledby="closed-heading">
      <h2 id="closed-heading">This browser has no session</h2>
      <p>{store.closedReason.value}</p>
      <p>This command prints an address that opens the page: <code>longhaul page</code></p>
    </section>
  );
}

function ViewChoice() {
  const choice = (view: store.View, word: string, show: () => void) => (
    <button type="button" aria-current={store.shown.value === view ? "page" : undefined}
      onClick={show}>{word}</button>
  );
  return (
    <nav aria-label="Views">
      {choice("run", "Run", showRun)}
      {choice("fault", "Faults", () => showFault(null))}
      {store.frozen.value === null && choice("cluster", "Cluster", showCluster)}
      {store.frozen.value === null && choice("plan", "Plan", showPlan)}
    </nav>
  );
}

function Licences() {
  const title = "Licences of the libraries in this page";
  if (store.frozen.value === null) return <a href="/licences.txt">{title}</a>;
  return (
    <details>
      <summary>{title}</summary>
      <pre tabIndex={0} aria-label={title}>{readLicences()}</pre>
    </details>
  );
}

function RunView() {
  return (
    <>
      <HeadlinePanel />
      <LossPanel />
      <ThroughputPanel />
      <LedgerPanel />
      <RanksPanel />
      <MfuPanel />
      <FaultsPanel />
      <SnapshotsPanel />
      {store.frozen.value === null && <NodesPanel />}
    </>
  );
}

function FaultPanels() {
  return (
    <>
      <FaultPanel />
      <FaultTimelinePanel />
      <FaultStoryPanel />
      <FaultEvidencePanel />
      <FaultsPanel />
    </>
  );
}

function ClusterViewPanels() {
  return (
    <>
      <MapPanel />
      <OccupancyPanel />
      <QueuesPanel />
      <WaitingPanel />
    </>
  );
}

function PlanPanels() {
  return (
    <>
      <PlanFormPanel />
      <PlanLayoutsPanel />
      <PlanStepPanel />
      <PlanMemoryPanel />
      <PlanInfluencesPanel />
      <PlanComparedPanel />
      <SubmitPanel />
    </>
  );
}

function ShownPanels() {
  if (store.closedReason.value !== null) return <Closed />;
  switch (store.shown.value) {
    case "run":
      return <RunView />;
    case "fault":
      return <FaultPanels />;
    case "cluster":
      return <ClusterViewPanels />;
    case "plan":
      return <PlanPanels />;
  }
}

export function Page() {
  return (
    <>
      <header>
        <h1>Longhaul</h1>
        <ViewChoice />
        <RunChoice />
        <ConnectionMark />
        <button type="button" aria-expanded={helpIsShown.value}
          onClick={() => (helpIsShown.value = !helpIsShown.value)}>Keys (?)</button>
      </header>
      <main>
        {helpIsShown.value && <Keys />}
        <MissingPanel />
        <ShownPanels />
      </main>
      <p class="unseen" role="status" aria-live="polite">{announcement.value}</p>
      <ActDialog />
      <footer><Licences /></footer>
    </>
  );
}
