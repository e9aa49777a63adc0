// A state as a shape, a colour and a word. Each of the three is enough by itself.

export type Tone = "good" | "change" | "warn" | "bad" | "off";

const SHAPES: Record<Tone, string> = {
  good: "M2 2h12v12H2z",
  change: "M2 2h6v12H2z",
  warn: "M8 1.5 15 14.5H1z",
  bad: "M3.5 1.5 8 6l4.5-4.5 2 2L10 8l4.5 4.5-2 2L8 10l-4.5 4.5-2-2L6 8 1.5 3.5z",
  off: "M3 3h10v10H3z",
};

export function Shape({tone}: {tone: Tone}) {
  return (
    <svg class={`shape ${tone}`} viewBox="0 0 16 16" aria-hidden="true">
      <path d={SHAPES[tone]} />
      {tone === "change" && <path class="outline" d="M2.75 2.75h10.5v10.5H2.75z" />}
    </svg>
  );
}

export function Mark({tone, word}: {tone: Tone; word: string}) {
  return <span class="mark"><Shape tone={tone} /> {word}</span>;
}

export function toneOfRun(state: string): Tone {
  switch (state) {
    case "running":
    case "succeeded":
      return "good";
    case "starting":
    case "stopping":
    case "leaving":
      return "change";
    case "recovering":
      return "warn";
    case "failed":
      return "bad";
    default:
      return "off";
  }
}

export function toneOfNode(condition: string): Tone {
  if (condition.startsWith("ready")) return "good";
  if (condition.startsWith("down") || condition === "absent") return "bad";
  if (condition.startsWith("suspect")) return "warn";
  if (condition.startsWith("draining") || condition.startsWith("cordoned")) return "change";
  return "off";
}
