import {foreign} from "./format";

const LONGEST_LINE = 2_000;

// A message of several lines from outside.
export function Lines({text}: {text: string}) {
  return (
    <>
      {text.split("\n").map((line, i) => [
        i > 0 && <br key={i} />,
        <bdi key={`line-${i}`}>{foreign(line, LONGEST_LINE)}</bdi>,
      ])}
    </>
  );
}
