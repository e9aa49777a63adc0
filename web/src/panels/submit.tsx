// A job file to submit, typed or read from the reader's disk.
import {useState} from "preact/hooks";

import {ask} from "../act";
import {submitJob} from "../acts";
import {Panel} from "../panel";
import {planner} from "../plan_store";
import {may} from "../session";

const MOST_BYTES = 1 << 20;  // which the controller accepts
const EXAMPLE = `name: hello
command: [python3, train.py]
resources: {nodes: 2, processes_per_node: 8}
`;

export function SubmitPanel() {
  const [text, setText] = useState("");
  const [file, setFile] = useState("job.yaml");
  const [refused, setRefused] = useState("");
  const read = async (chosen: File | undefined) => {
    if (chosen === undefined) return;
    if (chosen.size > MOST_BYTES) return setRefused("The file is larger than 1 MiB.");
    setRefused("");
    setText(await chosen.text());
    setFile(chosen.name);
  };
  if (!may("operate")) return null;
  return (
    <Panel id="submit" title="Submit a job" wide ready={planner.value !== null}>
      <form onSubmit={(event) => {
        event.preventDefault();
        ask(submitJob(text, file));
      }}>
        <p>
          <label>Read a job file:{" "}
            <input id="submit-file" type="file" accept=".yaml,.yml,.json"
              onChange={(event) => void read((event.target as HTMLInputElement).files?.[0])} />
          </label>
        </p>
        {refused !== "" && <p class="notice" role="alert">{refused}</p>}
        <textarea id="submit-text" rows={10} value={text} spellcheck={false} required
          placeholder={EXAMPLE} aria-label="The text of the job file"
          onInput={(event) => setText((event.target as HTMLTextAreaElement).value)} />
        <p class="acts"><button type="submit" id="submit-send">Submit</button></p>
      </form>
    </Panel>
  );
}
