// The button that cordons a node, or uses it again.
import {ask} from "./act";
import {nodeVerb, useNode} from "./acts";
import {foreign} from "./format";
import {may} from "./session";

export function NodeAct({node, condition}: {node: string; condition: string}) {
  const verb = nodeVerb(condition);
  if (verb === null || !may("administer")) return null;
  const word = verb === "cordon" ? "Cordon" : "Uncordon";
  return (
    <button type="button" data-node={node} aria-label={`${word} ${foreign(node)}`}
      onClick={() => ask(useNode(node, condition, verb))}>{word}…</button>
  );
}
