// Moments of a fault with their time after it.
import type {Moment} from "../fault_protocol";
import {foreign, offset} from "../format";

const LONGEST_SENTENCE = 2_000;

export function sentence(text: string): string {
  return foreign(text, LONGEST_SENTENCE);
}

export function Moments({moments}: {moments: Moment[]}) {
  return (
    <ol class="moments">
      {moments.map((moment, i) => (
        <li key={i}>
          <span class="offset">{offset(moment.after_seconds)}</span>
          <bdi>{sentence(moment.text)}</bdi>
        </li>
      ))}
    </ol>
  );
}
