// The frame of each panel, and its five states.
//
//   loading  nothing has arrived yet
//   empty    there is nothing to show, why, and the command that changes it
//   live     the present
//   stale    grey, with its age: nothing was heard for 15 s
//   error    the cause, the last good picture and a button
import type {ComponentChildren} from "preact";

import {age} from "./format";
import * as store from "./store";
import {retry} from "./views";

export interface Empty {
  reason: string;
  command?: string;
}

interface Props {
  id: string;
  title: string;
  wide?: boolean;
  ready: boolean;  // whether there is something to show, or a reason why not
  empty?: Empty | null;
  failure?: string | null;  // of a request of this panel alone
  children?: ComponentChildren;
}

function Notice({ready, failure}: {ready: boolean; failure?: string | null}) {
  const connection = failure ? "failed" : store.connection.value;
  switch (connection) {
    case "stale":
      return <p class="notice">Stale: last heard {age(store.ageMs.value / 1000)} ago.</p>;
    case "failed":
      return (
        <p class="notice">
          {failure ?? store.failure.value}
          {ready && " This is the last state that was received."}{" "}
          <button type="button" onClick={retry}>Retry</button>
        </p>
      );
    default:
      return null;
  }
}

function stateOf(props: Props): string {
  const connection = store.connection.value;
  if (connection === "failed" || props.failure) return "error";
  if (!props.ready) return "loading";
  if (connection === "stale") return "stale";
  return props.empty ? "empty" : "live";
}

export function Panel(props: Props) {
  const state = stateOf(props);
  const heading = `${props.id}-heading`;
  return (
    <section id={props.id} class={props.wide ? "panel wide" : "panel"} data-state={state}
      aria-labelledby={heading} aria-busy={state === "loading"}>
      <h2 id={heading}>{props.title}</h2>
      <Notice ready={props.ready} failure={props.failure} />
      {state === "loading" && <p class="soft">Loading.</p>}
      {props.ready && props.empty && (
        <p class="soft">
          {props.empty.reason} {props.empty.command && <code>{props.empty.command}</code>}
        </p>
      )}
      {props.ready && !props.empty && <div class="content">{props.children}</div>}
    </section>
  );
}
