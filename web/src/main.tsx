import {render} from "preact";

import {openSession} from "./access";
import {announceChanges} from "./announce";
import {readFrozen} from "./frozen";
import {listenToKeys} from "./keys";
import {Page} from "./page";
import {loadSession} from "./session";
import * as store from "./store";
import {keepAddress, showAddressed} from "./views";

function showPage() {
  render(<Page />, document.getElementById("page")!);
  listenToKeys();
  announceChanges();
  setInterval(() => ++store.ticker.value, 1_000);
}

// The page is shown once it has a session: a view that the reader chose earlier would be refused,
// and replaced by the one of the address.
async function start() {
  const report = readFrozen();
  if (report !== null) {
    store.freeze(report);
  } else {
    store.closedReason.value = await openSession();
  }
  showPage();
  if (store.closedReason.value !== null) return;
  if (report === null) void loadSession();
  showAddressed();
  keepAddress();
  addEventListener("hashchange", showAddressed);
}

void start();
