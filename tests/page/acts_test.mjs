// The acts of the page with a made-up server: who sees which, what is confirmed, and what each
// answer leads to. Run by page_acts_test.py: node --test acts_test.mjs
import assert from "node:assert/strict";
import {after, before, test} from "node:test";

import {accessibility, launch, open, setTheme} from "./browser.mjs";
import {MadeUpServer, cluster, fullRun} from "./made_up_server.mjs";

const WAIT = {timeout: 20_000, polling: 50};
const LIVE = (id) => document.getElementById(id)?.dataset.state === "live";
let browser;

before(async () => {
  browser = await launch(process.env.PAGE_CHROMIUM);
});
after(() => browser.close());

// Runs `body` with the page of a server that `prepare` has set up. `panel` is live by then.
async function withPage(prepare, body, fragment = "", panel = "headline") {
  const server = new MadeUpServer();
  await server.start();
  prepare(server);
  const {page, record} = await open(browser, server.origin);
  await setTheme(page, "light");
  try {
    await page.goto(server.origin + "/" + fragment);
    await page.waitForFunction(LIVE, WAIT, panel);
    await body(page, server);
    assert.deepEqual(record.foreign, []);
    assert.deepEqual(record.errors, []);
  } finally {
    await page.close();
    server.stop();
  }
}

const withRole = (role) => (server) => (server.session = {name: "alice", role});
const text = (page, selector) => page.$eval(selector, (element) => element.textContent);
const phase = (page, name) => page.waitForSelector(`dialog[data-phase="${name}"]`, WAIT);

async function accessible(page) {
  for (const theme of ["light", "dark"]) {
    await setTheme(page, theme);
    assert.deepEqual(await accessibility(page), [], theme);
  }
  if (process.env.PAGE_SCREENSHOTS) {
    const name = await page.$eval("dialog", (dialog) => dialog.dataset.phase);
    await page.screenshot({path: `${process.env.PAGE_SCREENSHOTS}/act-${name}.png`});
  }
}

async function acts(page) {
  return page.$$eval("#stop, button[data-node]", (all) => all.map((each) => each.textContent));
}

test("a session sees the acts of its role", async () => {
  await withPage(withRole("view"), async (page) => {
    await page.waitForFunction(() => performance.getEntriesByType("resource")
      .some(({name}) => name.endsWith("/v1/page/session")), WAIT);
    await page.evaluate(() => fetch("/v1/page/session"));
    assert.deepEqual(await acts(page), []);
  });
  await withPage(withRole("operate"), async (page) => {
    await page.waitForSelector("#stop", WAIT);
    assert.deepEqual(await acts(page), ["Stop…"]);
  });
  await withPage(withRole("administer"), async (page) => {
    await page.waitForSelector("#stop", WAIT);
    assert.deepEqual(await acts(page), ["Stop…", "Cordon…", "Drain…", "Uncordon…"]);
  });
});

test("a run that is over or stops has no button", async () => {
  for (const state of ["stopping", "stopped"]) {
    await withPage((server) => {
      withRole("administer")(server);
      server.view.run.state = state;
    }, async (page) => {
      await page.waitForSelector("button[data-node]", WAIT);
      assert.equal(await page.$("#stop"), null, state);
    });
  }
});

test("stop states its loss, requires the name and sends the event that was seen", async () => {
  await withPage(withRole("operate"), async (page, server) => {
    server.takeAct = () => [200, {state: "stopping"}];
    await page.waitForSelector("#stop", WAIT);
    await page.focus("#stop");
    await page.keyboard.press("Enter");
    await phase(page, "asking");
    const shown = await text(page, "dialog");
    assert.match(shown, /A stop loses 10 steps, about 10 s of work: .* step 40 \(memory\)/);
    assert.match(shown, /\$ longhaul stop gpt-1/);
    assert.match(shown, /You act as alice with the role operate/);
    assert.equal(await page.evaluate(() => document.activeElement.id), "act-word");
    await page.keyboard.type("gp");
    await page.keyboard.press("Enter");
    assert.ok(await page.$eval("#act-send", (button) => button.disabled));
    assert.deepEqual(server.acts, [], "the name is not complete");
    await accessible(page);
    await page.keyboard.type("t");
    await page.keyboard.press("Enter");
    await phase(page, "done");
    assert.match(await text(page, "#act-outcome"), /state of the run is now stopping/);
    assert.deepEqual(server.acts, [{path: "/v1/jobs/gpt-1/stop",
      body: {reason: "requested on the web page", seen: "1000"}}]);
    await accessible(page);
    await page.keyboard.press("Enter");  // the button Close has the focus
    await page.waitForFunction(() => !document.querySelector("dialog").open, WAIT);
  });
});

test("an elastic run is scaled within its bounds", async () => {
  const scale = async (page, nodes) => {
    await page.$eval("#scale input", (input, value) => (input.value = value), String(nodes));
    await page.click("#scale button");
  };
  await withPage((server) => {
    withRole("operate")(server);
    server.view.run.size = {minimum: 1, maximum: 4, step: 1, limit: 4};
  }, async (page, server) => {
    const answers = [[409, {error: {code: "failed_precondition", message: "its nodes change"}}],
      [200, {changes: 1}], [200, {changes: 1}]];
    server.takeAct = () => answers.shift();
    await page.waitForSelector("#scale", WAIT);
    await scale(page, 5);
    assert.equal(await page.$("dialog[open]"), null, "the browser refuses 5 nodes");
    await scale(page, 1);
    await phase(page, "asking");
    assert.match(await text(page, "dialog"), /has 2 nodes. It takes a snapshot .* on 1 node. /);
    assert.match(await text(page, "dialog"), /\$ longhaul jobs scale gpt-1 1/);
    await accessible(page);
    await page.click("#act-send");
    await page.waitForSelector("#act-note", WAIT);
    assert.match(await text(page, "#act-note"), /Nothing was done: its nodes change/);
    await page.click("#act-send");
    await phase(page, "done");
    assert.match(await text(page, "#act-outcome"), /has 1 node at most from now on/);
    await page.keyboard.press("Enter");
    await scale(page, 4);
    await phase(page, "asking");
    assert.match(await text(page, "dialog"), /It gets up to 2 more as they are free/);
    await page.click("#act-send");
    await phase(page, "done");
    assert.deepEqual(server.acts.map(({path, body}) => [path, body.changes]), [1, 1, 4].map(
      (nodes) => ["/v1/changes", [{scale: "gpt-1", nodes}]]));
  });
  await withPage(withRole("operate"), async (page) => {
    await page.waitForSelector("#stop", WAIT);
    assert.equal(await page.$("#scale"), null, "the number of nodes is fixed");
  });
});

test("a run that has changed is shown anew and asked about again", async () => {
  await withPage(withRole("operate"), async (page, server) => {
    server.takeAct = (path, {seen}) => {
      if (seen === "2000") return [200, {state: "stopping"}];
      server.view = fullRun();
      Object.assign(server.view.run, {state: "recovering", attempt: 3});
      server.view.as_of = "2000";
      return [409, {error: {code: "aborted", message: "job gpt-1 has changed"}}];
    };
    await page.waitForSelector("#stop", WAIT);
    await page.click("#stop");
    await page.type("#act-word", "gpt");
    await page.keyboard.press("Enter");
    await page.waitForSelector("#act-note", WAIT);
    assert.match(await text(page, "#act-note"), /Nothing was done: job gpt-1 has changed/);
    assert.match(await text(page, "dialog"), /The run is recovering in attempt 3/);
    assert.equal(await page.$eval("#act-word", (input) => input.value), "", "typed once more");
    await accessible(page);
    await page.type("#act-word", "gpt");
    await page.keyboard.press("Enter");
    await phase(page, "done");
    assert.deepEqual(server.acts.map(({body}) => body.seen), ["1000", "2000"]);
  });
});

test("after a change that leaves nothing to stop, nothing is asked", async () => {
  await withPage(withRole("operate"), async (page, server) => {
    server.takeAct = () => {
      Object.assign(server.view.run, {state: "succeeded", ended_at_ms: Date.now()});
      return [409, {error: {code: "aborted", message: "job gpt-1 has changed"}}];
    };
    await page.waitForSelector("#stop", WAIT);
    await page.click("#stop");
    await page.type("#act-word", "gpt");
    await page.keyboard.press("Enter");
    await phase(page, "refused");
    assert.match(await text(page, "#act-outcome"),
      /nothing to stop: the state of the run is succeeded/);
    assert.equal(server.acts.length, 1);
  });
});

test("Escape closes the dialog, sends nothing and gives the focus back", async () => {
  await withPage(withRole("administer"), async (page, server) => {
    await page.waitForSelector('button[data-node="node-2"]', WAIT);
    await page.focus('button[data-node="node-2"]');
    await page.keyboard.press("Enter");
    await phase(page, "asking");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Cancel");
    // The focus stays among the dialog's own elements, and the keys of the views have no effect.
    await page.keyboard.type("gc?");
    for (let i = 0; i < 8; ++i) {
      await page.keyboard.press("Tab");
      assert.ok(await page.evaluate(() => document.activeElement === document.body ||
        document.activeElement.closest("dialog") !== null));
    }
    assert.equal(await page.evaluate(() => location.hash), "#/run/gpt-1");
    assert.equal(await page.$("#keys"), null);
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => !document.querySelector("dialog").open, WAIT);
    assert.equal(await page.evaluate(() => document.activeElement.dataset.node), "node-2");
    assert.deepEqual(server.acts, []);
  });
});

test("a refusal is shown with its reason, and may be tried again", async () => {
  await withPage(withRole("administer"), async (page, server) => {
    await page.waitForSelector('button[data-node="node-2"]', WAIT);
    await page.click('button[data-node="node-2"]');
    await page.click("#act-send");
    await phase(page, "refused");
    assert.match(await text(page, "#act-outcome"), /Refused: it needs another role/);
    await accessible(page);
    server.takeAct = () => undefined;
    await page.evaluate(() => [...document.querySelectorAll("dialog button")].at(-1).click());
    await phase(page, "asking");
    await page.click("#act-send");
    await phase(page, "sending");
    assert.ok(await page.$eval("#act-send", (button) => button.disabled));
    assert.deepEqual(server.acts.map(({path}) => path),
      ["/v1/nodes/node-2/uncordon", "/v1/nodes/node-2/uncordon"]);
    await accessible(page);
  });
});

test("a node is drained, with the effect on its jobs stated first", async () => {
  await withPage(withRole("administer"), async (page, server) => {
    server.takeAct = () => [200, {condition: "draining"}];
    const button = 'button[data-node][aria-label^="Drain"]';
    await page.waitForSelector(button, WAIT);
    const node = await page.$eval(button, (element) => element.dataset.node);
    await page.click(button);
    await phase(page, "asking");
    assert.match(await text(page, "dialog"), /Its jobs take a snapshot and continue on other/);
    assert.match(await text(page, "dialog"), /\$ longhaul nodes drain /);
    await page.click("#act-send");
    await phase(page, "done");
    assert.match(await text(page, "#act-outcome"), /The node is draining/);
    assert.equal(server.acts[0].path, `/v1/nodes/${encodeURIComponent(node)}/drain`);
  });
});

test("a node of the map is chosen by keyboard, and its name is quoted", async () => {
  const name = "a b'$(reboot)";
  const prepare = (server) => {
    withRole("administer")(server);
    server.cluster = cluster(60, name);
    server.takeAct = () => [200, {condition: "cordoned"}];
  };
  await withPage(prepare, async (page, server) => {
    await page.waitForSelector("#not-ready button", WAIT);
    await page.focus(".map-holder");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Enter");
    await page.waitForSelector("#chosen button", WAIT);
    await page.click("#chosen button");
    await phase(page, "asking");
    assert.match(await text(page, "dialog"),
      /\$ longhaul nodes cordon 'a b'\\''\$\(reboot\)-0'/);
    await page.click("#act-send");
    await phase(page, "done");
    assert.match(await text(page, "#act-outcome"), /The node is cordoned/);
    assert.equal(server.acts[0].path, `/v1/nodes/${encodeURIComponent(`${name}-0`)}/cordon`);
    await accessible(page);
  }, "#/cluster", "map");
});
