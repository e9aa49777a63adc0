// What a report does not have, because the log of its run was cut, damaged or from a newer version.
import * as store from "../store";
import {sentence} from "./moments";

export function MissingPanel() {
  const notes = store.frozen.value?.notes ?? [];
  if (notes.length === 0) return null;
  return (
    <section id="missing" class="panel wide" data-state="live" aria-labelledby="missing-heading">
      <h2 id="missing-heading">What is missing in this report</h2>
      <ul>{notes.map((note, i) => <li key={i}><bdi>{sentence(note)}</bdi></li>)}</ul>
    </section>
  );
}
