// Copies commands. Browsers permit it on pages of this machine and of TLS only.
import type {Signal} from "@preact/signals";

const SHOWN_MS = 4_000;

// `result` is a sentence about it for a few seconds.
export async function copyText(text: string, result: Signal<string>) {
  try {
    await navigator.clipboard.writeText(text);
    result.value = "Copied.";
  } catch {
    result.value = "The browser refused to copy: select the command.";
  }
  setTimeout(() => (result.value = ""), SHOWN_MS);
}
