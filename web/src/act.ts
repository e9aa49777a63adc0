// An act on the cluster, from the question to the server's answer.
//
//   asking -> sending -> done | refused
//     ^          |                |
//     +----------+----------------+   the state has changed (409); another try
//
// One act at a time, in a dialog (act_dialog.tsx). acts.ts has the acts.
import {signal} from "@preact/signals";

import {post, reasonOf, Refusal} from "./request";

export interface Act {
  title: string;
  verb: string;      // on the button that sends it
  command: string;   // which does the same in a shell
  path: string;
  body: object;
  word?: string;     // which the reader has to type first
  effects: () => string[];            // what it does and what is lost, now
  answered: (answer: never) => string;  // what the server has done
  // Requests the state anew after a change. Returns the act for that state, or why there is none.
  again: () => Promise<Act | string>;
  after: (answer: never) => void;  // shows its effect
}

export type Phase =
  | {name: "asking"; note?: string}
  | {name: "sending"}
  | {name: "done"; text: string}
  | {name: "refused"; text: string; final?: boolean};

export const act = signal<{act: Act; phase: Phase} | null>(null);

export function ask(wanted: Act) {
  act.value = {act: wanted, phase: {name: "asking"}};
}

export function closeAct() {
  act.value = null;
}

// The server has refused the act because its object has changed since the reader saw it.
async function askAgain(old: Act, reason: string): Promise<{act: Act; phase: Phase}> {
  const next = await old.again().catch((error) => `${reason}. ${reasonOf(error)}`);
  if (typeof next === "string") {
    return {act: old, phase: {name: "refused", text: next, final: true}};
  }
  return {act: next, phase: {name: "asking", note: `Nothing was done: ${reason}.`}};
}

async function outcomeOf(sent: Act): Promise<{act: Act; phase: Phase}> {
  try {
    const answer = await post<never>(sent.path, sent.body);
    sent.after(answer);
    return {act: sent, phase: {name: "done", text: sent.answered(answer)}};
  } catch (error) {
    const reason = reasonOf(error);
    if (error instanceof Refusal && error.status === 409) return askAgain(sent, reason);
    return {act: sent, phase: {name: "refused", text: reason}};
  }
}

export async function send() {
  const now = act.value;
  if (now === null || now.phase.name !== "asking") return;
  const sending = {act: now.act, phase: {name: "sending"} as Phase};
  act.value = sending;
  const outcome = await outcomeOf(now.act);
  // The reader may have closed the dialog meanwhile.
  if (act.value === sending) act.value = outcome;
}
