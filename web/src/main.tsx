import {render} from "preact";

import {openSession} from "./access";
import {announceChanges} from "./announce";
import {readFrozen} from "./frozen";
import {listenToKeys} from "./keys";
import {Page} from "./page";
import {loadSession} from "./session";
import * as store from "./store";
import {keepAddress, showAddressed} from "./views";

async function start() {
  render(<Page />, document.getElementById("page")!);
  listenToKeys();
  announceChanges();
  setInterval(() => ++store.ticker.value, 1_000);
  const report = readFrozen();
  if (report === null) {
    const refusal = await openSession();
    if (refusal !== null) {
      store.closedReason.value = refusal;
      return;
    }
  } else {
    store.freeze(report);
  }
  if (report === null) void loadSession();
  showAddressed();
  keepAddress();
  addEventListener("hashchange", showAddressed);
}

void start();
