// The dialog of an act: its effect, its command, and the confirmation.
//
// It is a modal <dialog>, so the browser keeps the focus in it, closes it on Escape and gives the
// focus back.
import {useSignal} from "@preact/signals";
import {useLayoutEffect, useRef} from "preact/hooks";

import {act, ask, closeAct, send, type Act, type Phase} from "./act";
import {copyText} from "./clipboard";
import {foreign} from "./format";
import {Lines} from "./lines";
import {session} from "./session";

function Command({command}: {command: string}) {
  const copied = useSignal("");
  return (
    <p class="command">
      <code>$ {command}</code>{" "}
      <button type="button" onClick={() => void copyText(command, copied)}>Copy</button>{" "}
      <span role="status">{copied.value}</span>
    </p>
  );
}

function Actor() {
  const own = session.value;
  if (own === null) return null;
  return (
    <p class="soft">
      You act as <bdi>{foreign(own.name)}</bdi> with the role {own.role}. The controller's audit log
      records it.
    </p>
  );
}

function Question({of, phase}: {of: Act; phase: Phase}) {
  const typed = useSignal("");
  const sending = phase.name === "sending";
  const confirmed = of.word === undefined || typed.value === of.word;
  return (
    <form onSubmit={(event) => {
      event.preventDefault();
      if (confirmed) void send();
    }}>
      {phase.name === "asking" && phase.note !== undefined && (
        <p class="notice" id="act-note" role="alert"><bdi>{foreign(phase.note)}</bdi></p>
      )}
      {of.effects().map((effect) => <p key={effect}><bdi>{effect}</bdi></p>)}
      <p>This command does the same:</p>
      <Command command={of.command} />
      <Actor />
      {of.word !== undefined && (
        <p>
          <label>
            Type the name of the run, <strong><bdi>{foreign(of.word)}</bdi></strong>, to
            confirm:{" "}
            <input id="act-word" type="text" value={typed.value} autoComplete="off" autofocus
              spellcheck={false} disabled={sending}
              onInput={(event) => (typed.value = (event.target as HTMLInputElement).value)} />
          </label>
        </p>
      )}
      <p class="acts">
        <button type="button" onClick={closeAct} disabled={sending}
          autofocus={of.word === undefined}>Cancel</button>{" "}
        <button type="submit" id="act-send" disabled={sending || !confirmed}>{of.verb}</button>{" "}
        <span role="status">{sending && "Sending."}</span>
      </p>
    </form>
  );
}

function Outcome({of, phase}: {of: Act; phase: Phase & {text: string}}) {
  const close = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => close.current?.focus(), []);
  const refused = phase.name === "refused";
  return (
    <>
      <p id="act-outcome" class={refused ? "notice" : ""} role="status">
        {refused && "Refused: "}<Lines text={phase.text} />
      </p>
      <p class="acts">
        <button type="button" ref={close} onClick={closeAct}>Close</button>{" "}
        {phase.name === "refused" && !phase.final && (
          <button type="button" onClick={() => ask(of)}>Try again</button>
        )}
      </p>
    </>
  );
}

// Gives the focus to the present view if the button that has opened the dialog is gone.
function keepFocus() {
  if (document.activeElement !== document.body && document.activeElement !== null) return;
  document.querySelector<HTMLElement>("nav [aria-current]")?.focus();
}

export function ActDialog() {
  const dialog = useRef<HTMLDialogElement>(null);
  const now = act.value;
  const open = now !== null;
  // Before the browser paints, so that no key is lost.
  useLayoutEffect(() => {
    const element = dialog.current!;
    if (open && !element.open) element.showModal();
    if (!open && element.open) element.close();
  }, [open]);
  const phase = now?.phase;
  return (
    <dialog ref={dialog} id="act" data-phase={phase?.name} aria-labelledby="act-heading"
      onClose={() => {
        closeAct();
        keepFocus();
      }}>
      {now !== null && <h2 id="act-heading"><bdi>{now.act.title}</bdi></h2>}
      {now !== null && (now.phase.name === "done" || now.phase.name === "refused"
        ? <Outcome of={now.act} phase={now.phase} />
        : <Question key={JSON.stringify(now.act.body)} of={now.act} phase={now.phase} />)}
    </dialog>
  );
}
