// The buttons that cordon a node, drain it, or use it again.
import {ask} from "./act";
import {nodeVerbs, useNode, wordOf} from "./acts";
import {foreign} from "./format";
import {may} from "./session";

export function NodeActs({node, condition}: {node: string; condition: string}) {
  if (!may("administer")) return null;
  return (
    <>
      {nodeVerbs(condition).map((verb) => [
        <button key={verb} type="button" data-node={node}
          aria-label={`${wordOf(verb)} ${foreign(node)}`}
          onClick={() => ask(useNode(node, condition, verb))}>{wordOf(verb)}…</button>,
        " ",
      ])}
    </>
  );
}
