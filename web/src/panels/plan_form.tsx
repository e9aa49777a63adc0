// What to plan: a model and a cluster.
import {useState} from "preact/hooks";

import {duration} from "../format";
import {Lines} from "../lines";
import type {Planner, PlanRequest} from "../plan_protocol";
import {cancelPlan, makePlan, planFailure, planner, running} from "../plan_store";
import {Panel, type Empty} from "../panel";
import {may} from "../session";

const PRECISIONS = ["bf16", "fp16", "fp32", "fp8", "mxfp8", "nvfp4"];
const FRAMEWORKS = ["any", "megatron", "torchtitan", "deepspeed", "all"];

// The texts of the fields. An empty one leaves the choice to the planner.
type Fields = Record<"model" | "model_text" | "device" | "devices" | "batch" | "sequence" |
  "tokens" | "precision" | "framework" | "fix" | "seconds", string>;

const FIRST: Fields = {model: "llama-3.1-8b", model_text: "", device: "h100-sxm", devices: "64",
  batch: "", sequence: "", tokens: "", precision: "bf16", framework: "any", fix: "",
  seconds: "20"};

function requestOf(fields: Fields): PlanRequest {
  const asked: PlanRequest = {device: fields.device, devices: Number(fields.devices),
    seconds: Number(fields.seconds)};
  if (fields.model_text.trim() !== "") asked.model_text = fields.model_text;
  else asked.model = fields.model.trim();
  if (fields.batch !== "") asked.batch = Number(fields.batch);
  if (fields.sequence !== "") asked.sequence = Number(fields.sequence);
  if (fields.tokens.trim() !== "") asked.tokens = fields.tokens.trim();
  if (fields.precision !== "bf16") asked.precision = fields.precision;
  if (fields.framework !== "any") asked.framework = fields.framework;
  if (fields.fix.trim() !== "") asked.fix = fields.fix.replaceAll(/\s/g, "");
  return asked;
}

function Progress() {
  const now = running.value;
  if (now === null) return null;
  const answer = now.answer;
  const text = answer === null || answer.state === "waiting"
    ? "Waiting for the planner."
    : `Searching: ${duration(answer.searched_seconds)} of at most ` +
      `${duration(answer.limit_seconds)}.`;
  return (
    <>
      <span id="plan-progress" role="status">{text}</span>{" "}
      <progress aria-label="The search" max={answer?.limit_seconds ?? 1}
        value={answer?.searched_seconds ?? 0} />{" "}
      <button type="button" id="plan-cancel" disabled={answer === null}
        onClick={() => void cancelPlan()}>Cancel</button>
    </>
  );
}

function Form({known}: {known: Planner}) {
  const [fields, setFields] = useState(FIRST);
  const set = (key: keyof Fields) => (event: Event) =>
    setFields({...fields, [key]: (event.target as HTMLInputElement).value});
  const number = (key: keyof Fields, label: string, most: number, hint = "") => (
    <label>{label}{" "}
      <input id={`plan-${key}`} type="number" min="1" max={most} value={fields[key]}
        placeholder={hint} required={hint === ""} onInput={set(key)} />
    </label>
  );
  const choice = (key: keyof Fields, label: string, all: string[]) => (
    <label>{label}{" "}
      <select id={`plan-${key}`} value={fields[key]} onChange={set(key)}>
        {all.map((each) => <option key={each} value={each}>{each}</option>)}
      </select>
    </label>
  );
  const own = fields.model_text.trim() !== "";
  return (
    <form onSubmit={(event) => {
      event.preventDefault();
      void makePlan(requestOf(fields));
    }}>
      <div class="fields">
        <label>Model{" "}
          <input id="plan-model" list="plan-models" value={fields.model} disabled={own}
            required={!own} spellcheck={false} onInput={set("model")} />
        </label>
        <datalist id="plan-models">
          {known.models.map((each) => <option key={each} value={each} />)}
        </datalist>
        {choice("device", "Accelerator", known.devices)}
        {number("devices", "Number of them", 1_048_576)}
        {number("batch", "Sequences of a step", 1_000_000_000, "planned")}
        {number("sequence", "Tokens of a sequence", 134_217_728, "of the model")}
        <label>Tokens in all{" "}
          <input id="plan-tokens" value={fields.tokens} placeholder="300B" spellcheck={false}
            onInput={set("tokens")} />
        </label>
        {choice("precision", "Precision", PRECISIONS)}
        {choice("framework", "Framework", FRAMEWORKS)}
        <label>Fixed sizes{" "}
          <input id="plan-fix" value={fields.fix} placeholder="tensor=8,pipeline=4"
            spellcheck={false} onInput={set("fix")} />
        </label>
        {number("seconds", "Search, in seconds", 120)}
      </div>
      <details>
        <summary>A model of your own: a model file in YAML, or a config.json</summary>
        <textarea id="plan-text" rows={10} value={fields.model_text} spellcheck={false}
          aria-label="The text of a model file" onInput={set("model_text")} />
      </details>
      <p class="acts">
        <button type="submit" id="plan-send" disabled={running.value !== null}>Plan</button>{" "}
        <Progress />
      </p>
      {planFailure.value !== "" && (
        <p class="notice" id="plan-failure" role="alert">
          <Lines text={planFailure.value} />
        </p>
      )}
    </form>
  );
}

function emptyOf(known: Planner): Empty | null {
  if (!known.available) {
    return {reason: "The controller has no planner: the program longhaul-tools is not beside it. " +
      "The same in a shell, where the program is:", command: "longhaul plan --help"};
  }
  return may("operate") ? null
    : {reason: "Plans use the controller's processor, so they need the role operate:",
      command: "longhaul page --role operate"};
}

export function PlanFormPanel() {
  const known = planner.value;
  return (
    <Panel id="plan-form" title="Plan a training" wide ready={known !== null}
      empty={known === null ? null : emptyOf(known)}>
      {known !== null && <Form known={known} />}
    </Panel>
  );
}
