import {render} from "preact";

import {openSession} from "./access";
import {announceChanges} from "./announce";
import {listenToKeys} from "./keys";
import {Page} from "./page";
import * as store from "./store";
import {showAddressed} from "./views";

async function start() {
  render(<Page />, document.getElementById("page")!);
  listenToKeys();
  announceChanges();
  setInterval(() => ++store.ticker.value, 1_000);
  const refusal = await openSession();
  if (refusal !== null) {
    store.closedReason.value = refusal;
    return;
  }
  showAddressed();
}

void start();
