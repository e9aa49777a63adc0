// The session of this browser: opened by the one-time link in the address's fragment, and kept by
// the browser as a cookie that scripts cannot read.

export async function openSession(): Promise<string | null> {
  const match = /^#t=([0-9a-f]+)$/.exec(location.hash);
  if (match === null) return null;
  // At once, so that the link is neither shown nor kept in the history.
  history.replaceState(null, "", location.pathname);
  try {
    const answer = await fetch("/v1/page/session", {
      method: "POST",
      headers: {"Longhaul-Page-Link": match[1]!},
    });
    if (answer.ok) return null;
    const body = await answer.json();
    return String(body.error?.message ?? `The server answered ${answer.status}.`);
  } catch {
    return "The controller does not answer.";
  }
}
