// What the page can do to the cluster, with the words that the reader confirms.
import type {Act} from "./act";
import {followCluster} from "./cluster_store";
import {count, duration, foreign, plural, shellWord, words} from "./format";
import {isOver, type RunView} from "./protocol";
import {request} from "./request";
import * as store from "./store";
import {lookAgain} from "./transport";
import {chooseRun, showRun} from "./views";

const REASON = "requested on the web page";

// Whether there is anything to stop.
export function canStop(view: RunView): boolean {
  return !isOver(view.run.state) && view.run.state !== "stopping";
}

// A job that ends keeps its newest snapshot: it is written before the job closes.
function lossOfStop(view: RunView): string {
  const loss = view.loss_now;
  if (loss === null) {
    return view.run.step === 0 ? "The run has done no step that could be lost."
      : "It is not known how many steps a stop loses.";
  }
  const newest = loss.tier === "none" ? "there is no snapshot yet"
    : `the newest snapshot is of step ${count(loss.step)} (${loss.tier})`;
  if (loss.steps === 0) return `A stop loses no step: ${newest}.`;
  return `A stop loses ${plural(loss.steps, "step")}, about ${duration(loss.seconds)} of work: ` +
    `${newest}. A program that takes a snapshot when it receives SIGTERM loses none of them.`;
}

// The page's view of the run, which follows its steps, unless `seen` is newer.
function presentOf(seen: RunView): RunView {
  const shown = store.view.value;
  if (shown === null || shown.run.id !== seen.run.id) return seen;
  return BigInt(shown.as_of) >= BigInt(seen.as_of) ? shown : seen;
}

export function stopRun(seen: RunView): Act {
  const {id, name} = seen.run;
  const present = () => presentOf(seen);
  return {
    title: `Stop run ${foreign(id)}`,
    verb: "Stop the run",
    command: `longhaul stop ${shellWord(id)}`,
    path: `/v1/jobs/${encodeURIComponent(id)}/stop`,
    body: {reason: REASON, seen: seen.as_of},
    word: name === "" ? id : name,
    effects: () => [
      `The run is ${words(present().run.state)} in attempt ${count(present().run.attempt)}, at ` +
        `step ${count(present().run.step)}. A stop ends all of its workers.`,
      lossOfStop(present()),
    ],
    answered: (job: {state: string}) => `The state of the run is now ${words(job.state)}.`,
    again: async () => {
      const view = await request<RunView>(`/v1/view/run/${encodeURIComponent(id)}?series=false`);
      void lookAgain();
      return canStop(view) ? stopRun(view)
        : `There is nothing to stop: the state of the run is ${words(view.run.state)}.`;
    },
    after: () => void lookAgain(),
  };
}

function effectOfScale({run, nodes_total: present}: RunView, nodes: number): string {
  if (run.state === "queued") return `The run waits. It starts on ${plural(nodes, "node")} at most.`;
  const has = `The run has ${plural(present, "node")}.`;
  if (nodes < present) {
    return `${has} It takes a snapshot after its next step, ends its workers and continues on ` +
      `${plural(nodes, "node")}. The others are free for other jobs.`;
  }
  return nodes === present ? `${has} It keeps them and gets no further ones.`
    : `${has} It gets up to ${count(nodes - present)} more as they are free; it then takes a ` +
      "snapshot, ends its workers and continues with them.";
}

// Of an elastic run that is not over.
export function scaleRun(seen: RunView, nodes: number): Act {
  const {id} = seen.run;
  return {
    title: `Scale run ${foreign(id)} to ${plural(nodes, "node")} at most`,
    verb: "Scale the run",
    command: `longhaul jobs scale ${shellWord(id)} ${nodes}`,
    path: "/v1/changes",
    body: {changes: [{scale: id, nodes}], reason: REASON},
    effects: () => [effectOfScale(presentOf(seen), nodes)],
    answered: () => `The run has ${plural(nodes, "node")} at most from now on.`,
    again: async () => {
      const view = await request<RunView>(`/v1/view/run/${encodeURIComponent(id)}?series=false`);
      void lookAgain();
      return canStop(view) ? scaleRun(view, nodes)
        : `The run is not scaled: its state is ${words(view.run.state)}.`;
    },
    after: () => void lookAgain(),
  };
}

// What the controller answers: one job, or those of a list.
type Submitted = {id: string} | {jobs: {id: string}[]};

function idsOf(answer: Submitted): string[] {
  return "jobs" in answer ? answer.jobs.map(({id}) => id) : [answer.id];
}

// The whole job file goes to the controller; `file` is its name in messages.
export function submitJob(text: string, file: string): Act {
  return {
    title: `Submit ${foreign(file)}`,
    verb: "Submit",
    command: `longhaul submit ${shellWord(file)}`,
    path: "/v1/jobs",
    body: {job: text, source: file},
    effects: () => [
      "The controller plans the jobs of the file, prepares their data and puts them into their " +
        "queues. It accepts all of them or none. Their programs run on the cluster's nodes, and " +
        "may take nodes from jobs of lower priority.",
    ],
    answered: (answer: Submitted) =>
      `Submitted: ${idsOf(answer).map((id) => foreign(id)).join(", ")}.`,
    again: async () => "The controller does not accept the job now.",
    after: (answer: Submitted) => {
      chooseRun(idsOf(answer)[0]!);
      showRun();
    },
  };
}

export type NodeVerb = "cordon" | "drain" | "uncordon";

// The acts that fit a node's condition.
export function nodeVerbs(condition: string): NodeVerb[] {
  if (condition === "absent") return [];
  if (condition.startsWith("ready")) return ["cordon", "drain"];
  if (condition.startsWith("cordoned")) return ["uncordon", "drain"];
  return /^(draining|suspect|spare)/.test(condition) ? ["uncordon"] : ["cordon"];
}

export function wordOf(verb: NodeVerb): string {
  return verb.charAt(0).toUpperCase() + verb.slice(1);
}

const NODE_EFFECTS = {
  cordon: "No new work is placed on the node. Its present jobs continue.",
  drain: "No new work is placed on the node. Its jobs take a snapshot and continue on other " +
    "nodes; those that find no place wait in their queues, and those that may never be stopped " +
    "stay.",
  uncordon: "New work may be placed on the node again.",
};

export function useNode(node: string, condition: string, verb: NodeVerb): Act {
  const refresh = async () => {
    if (store.shown.value === "cluster") followCluster();
    else await lookAgain();
  };
  const title = `${wordOf(verb)} node ${foreign(node)}`;
  return {
    title,
    verb: wordOf(verb),
    command: `longhaul nodes ${verb} ${shellWord(node)}`,
    path: `/v1/nodes/${encodeURIComponent(node)}/${verb}`,
    body: {reason: REASON},
    effects: () => [`The node is ${foreign(condition)}. ${NODE_EFFECTS[verb]}`],
    answered: (answer: {condition: string}) => `The node is ${foreign(answer.condition)}.`,
    // All of them are idempotent, so the server refuses them only for reasons that it states.
    again: async () => "The controller does not permit this now.",
    after: () => void refresh(),
  };
}
