// The states of the page's panels, hostile texts, lost streams, and the rules of accessibility,
// with a made-up server. Run by page_browser_test.py: node --test states_test.mjs
import assert from "node:assert/strict";
import {after, before, test} from "node:test";

import {accessibility, launch, open, panels, setTheme} from "./browser.mjs";
import {
  EMPTY_CURVE, MadeUpServer, cluster, curve, faultView, fullRun, newRun, rankWork,
} from "./made_up_server.mjs";

const PANELS = ["headline", "loss", "throughput", "ledger", "ranks", "mfu", "faults", "snapshots",
  "nodes"];
let browser;

before(async () => {
  browser = await launch(process.env.PAGE_CHROMIUM);
});
after(() => browser.close());

// Runs `body` with a page of a server that `prepare` has set up, in both themes.
async function withPage(prepare, body, fragment = "", waitFor = "#connection") {
  const server = new MadeUpServer();
  await server.start();
  prepare(server);
  const {page, record} = await open(browser, server.origin);
  // Tests move the page's clock instead of waiting.
  await page.evaluateOnNewDocument(() => {
    const now = performance.now.bind(performance);
    globalThis.shift = 0;
    performance.now = () => now() + globalThis.shift;
  });
  await setTheme(page, "light");
  try {
    await page.goto(server.origin + "/" + fragment);
    await page.waitForSelector(waitFor);
    await body(page, server);
    for (const theme of ["light", "dark"]) {
      await setTheme(page, theme);
      assert.deepEqual(await accessibility(page), [], theme);
    }
    assert.deepEqual(record.foreign, []);
    assert.deepEqual(record.errors, []);
  } finally {
    await page.close();
    server.stop();
  }
}

async function waitForState(page, state, ids = PANELS) {
  await page.waitForFunction((wanted, names) => names.every(
    (id) => document.getElementById(id)?.dataset.state === wanted), {polling: 50, timeout: 20_000},
  state, ids);
}

const text = (page, selector) => page.$eval(selector, (element) => element.textContent);

test("panels are loading until the server has answered", async () => {
  await withPage((server) => (server.answer = "hang"), async (page) => {
    await waitForState(page, "loading");
  });
});

test("panels of a new run are empty, with the reason and a command", async () => {
  await withPage((server) => (server.view = newRun()), async (page) => {
    await waitForState(page, "empty", PANELS.filter((id) => id !== "headline"));
    const shown = await panels(page);
    assert.match(shown.nodes.text, /no nodes yet.*longhaul status gpt-1 --why/);
    assert.match(shown.faults.text, /No fault so far/);
    assert.equal(await text(page, "#fact-loss"), "unknown", "unknown is not zero");
  });
});

test("without a run the page names the command that starts one", async () => {
  await withPage((server) => (server.runs = []), async (page) => {
    await waitForState(page, "empty", ["headline"]);
    assert.match((await panels(page)).headline.text, /There is no run yet. *longhaul run/);
  });
});

// The sums of the groups of the made-up run, worked by hand.
test("the shares of the time over the run are a chart with a cursor and a table", async () => {
  await withPage(() => {}, async (page) => {
    await waitForState(page, "live");
    const chart = '#ledger [aria-label^="Shares of the time over the run"]';
    assert.match(await page.$eval(chart, (element) => element.ariaLabel),
      /periods of 1.0 s. The newest period has productive 95.0 %, snapshots 2.5 %, input 2.5 %/);
    await page.focus(chart);
    for (let i = 0; i < 25; ++i) await page.keyboard.press("ArrowLeft");
    assert.match(await text(page, "#ledger .cursor"), /recovery 100.0 %/);
    await page.$eval("#spent-time", (details) => (details.open = true));
    await page.waitForSelector("#spent-time tfoot td");
    const sums = await page.$$eval("#spent-time tfoot td", (cells) =>
      cells.map(({dataset}) => [dataset.group, Math.round(Number(dataset.value) * 1e6) / 1e6]));
    assert.deepEqual(sums, [["productive", 133], ["lost", 19], ["recovery", 80], ["snapshot", 6],
      ["input", 2]]);
  });
});

test("without the shares over time the panel shows the goodput's curve", async () => {
  await withPage((server) => (server.view.spent_time = null), async (page) => {
    await waitForState(page, "live");
    await page.waitForSelector('#ledger [aria-label^="Goodput over time"]');
    assert.equal(await page.$("#spent-time"), null);
  });
});

test("the heat map of the ranks names the slow one, by cursor and as a table", async () => {
  await withPage(() => {}, async (page) => {
    await waitForState(page, "live");
    assert.match(await text(page, "#ranks .content"), /a rank works 2 ms \(median\)/);
    assert.match(await text(page, "#late"), /^ rank 1 works at least 50.0 % longer than/);
    const map = '#ranks [aria-label^="Heat map of 4 ranks in 4 rows and 40 periods"]';
    await page.focus(map);
    const keys = ["ArrowLeft", "ArrowDown", ...new Array(39).fill("ArrowLeft")];
    for (const [i, key] of keys.entries()) {
      await page.keyboard.press(key);
      if (i === 0) assert.match(await text(page, "#ranks .cursor"), /^rank 0, .*: as long as/);
      if (i === 1) assert.match(await text(page, "#ranks .cursor"), /^rank 1, .*: 50.0 % longer/);
    }
    assert.match(await text(page, "#ranks .cursor"), /^rank 1, .*: as long as the median/);
    await (await page.$("#ranks details summary")).click();
    await page.waitForSelector("#ranks tbody tr");
    assert.match(await text(page, "#ranks tbody tr"), /^rank 1150.0 % longer/);
  });
});

test("16,384 ranks are drawn in 128 rows, with few elements", async () => {
  await withPage((server) => (server.view.rank_work = rankWork(128, 240, Date.now(), 128)),
    async (page) => {
      await waitForState(page, "live", ["ranks"]);
      assert.match(await text(page, "#ranks .content"), /A row has 128 ranks and shows the slow/);
      assert.match(await text(page, "#late"), /^ rank 128 works/);
      assert.ok(await page.$$eval("#ranks *", (all) => all.length) < 60);
      const height = await page.$eval("#ranks canvas", (canvas) => canvas.clientHeight);
      assert.equal(height, 256);
      // Not all of one colour: the rows of the slow group are drawn.
      const colours = await page.$eval("#ranks canvas", (canvas) => {
        const context = canvas.getContext("2d");
        const at = (y) => context.getImageData(canvas.width / 2 + 60, y, 1, 1).data.join();
        return [at(1), at(Math.round(canvas.height * 1.5 / 128))];
      });
      assert.notEqual(colours[0], colours[1]);
    });
});

test("the utilisation is the model's FLOPs over the peak, or it says what is missing", async () => {
  await withPage(() => {}, async (page) => {  // 1.5 of 4 TFLOP/s in the newest step
    await waitForState(page, "live");
    assert.equal(await text(page, "#fact-mfu"), "37.5 %");
    // 1 s against 0.8 s; 10 rank seconds, and 50 s of 4 ranks to come, with 2 accelerators each.
    assert.equal(await text(page, "#fact-step-time"), "1.0 s predicted: 800 ms (25.0 % more)");
    assert.equal(await text(page, "#fact-cost"),
      "0.00556 accelerator-hours so far, about 0.111 to come");
    assert.match(await text(page, "#mfu"), /37.5 %: the model does 1.50 TFLOP.s, .* 4.00 TFLOP/);
    assert.match(await page.$eval("#mfu .chart", ({ariaLabel}) => ariaLabel), /sation: 37.5 %/);
  });
  await withPage((server) => (server.view.run.peak_flops_per_second = 0), async (page) => {
    await waitForState(page, "live");
    assert.equal(await text(page, "#fact-mfu"), "unknown");
    assert.match(await text(page, "#mfu"), /1.50 TFLOP.s. The peak of the workers' devices is/);
  });
  await withPage((server) => (server.view.series.flops_per_second = EMPTY_CURVE), async (page) => {
    await waitForState(page, "empty", ["mfu"]);
    assert.match(await text(page, "#mfu"), /No worker has reported the model FLOPs/);
  });
});

test("every panel of a full run is live and has its data", async () => {
  await withPage(() => {}, async (page) => {
    await waitForState(page, "live");
    const shown = await panels(page);
    assert.match(shown.ledger.text, /Sum10\.000equals the time of all ranks/);
    assert.match(shown.ledger.text, /75.0 % of the time/);
    assert.match(shown.faults.text, /killed by signal 9 \(injected\)/);
    assert.match(shown.faults.text, /in 5.0 s/);
    assert.match(shown.snapshots.text, /4.77 MiB/);
    assert.match(shown.nodes.text, /suspect/);
    assert.match(await text(page, "#fact-loss-now"), /10 s.*10 steps since .* of step 40/);
    assert.equal(await page.$$eval("canvas", (all) => all.length), 5);
    await page.$$eval("details", (all) => all.forEach((details) => (details.open = true)));
    await page.waitForFunction(() => document.querySelectorAll("details table").length === 5);
  });
});

test("a ledger whose sum differs says so", async () => {
  await withPage((server) => (server.view.ledger.rank_seconds = 11), async (page) => {
    await waitForState(page, "live", ["ledger"]);
    assert.match((await panels(page)).ledger.text, /differs from the time of all ranks, 11/);
  });
});

test("the choice of runs has the state of the run that is shown, not of the older list", async () => {
  await withPage((server) => (server.runs = [{...server.view.run, state: "queued"}]),
    async (page) => {
      await waitForState(page, "live");
      assert.match(await text(page, "#runs"), /, running/);
    });
});

test("panels are stale when nothing was heard for 15 s, with the age", async () => {
  await withPage(() => {}, async (page, server) => {
    await waitForState(page, "live");
    await server.waitForStream();
    server.answer = "hang";  // the refresh of the view, too
    await page.evaluate(() => (globalThis.shift = 20_000));
    await waitForState(page, "stale");
    assert.match((await panels(page)).loss.text, /Stale: last heard 2\d s ago/);
    server.send(null, "alive");
    await waitForState(page, "live");
  });
});

test("a failure shows its cause and the last state, and Retry repairs it", async () => {
  await withPage(() => {}, async (page, server) => {
    await waitForState(page, "live");
    await server.waitForStream();
    server.answer = "fail";
    server.send(2000, "fault");
    await waitForState(page, "error");
    const shown = await panels(page);
    assert.match(shown.faults.text, /the disk is full.*last state that was received/);
    assert.match(shown.faults.text, /killed by signal 9/);
    server.answer = "good";
    await page.click("#faults .notice button");
    await waitForState(page, "live");
  });
});

test("a session that is over closes the page", async () => {
  await withPage((server) => (server.answer = "closed"), async (page) => {
    await page.waitForSelector("#closed");
    assert.match(await text(page, "#closed"), /it is over.*longhaul page/);
  });
});

test("texts of jobs, nodes and workers stay texts", async () => {
  const hostile = "<img src=x onerror=alert(1)></script>\u202egnp.exe\u0000\u001b[31m" +
    "__proto__'$(id)";
  await withPage((server) => (server.view = fullRun(hostile + "x".repeat(1_000_000))),
    async (page) => {
      await waitForState(page, "live");
      const found = await page.evaluate(() => ({
        images: document.querySelectorAll("#page img").length,
        scripts: document.querySelectorAll("#page script").length,
        text: document.body.textContent,
      }));
      assert.equal(found.images, 0);
      assert.equal(found.scripts, 0);
      assert.ok(found.text.includes("<img src=x onerror=alert(1)></script>\\u202egnp.exe\\u0000"));
      assert.ok(!/[\u202e\u0000\u001b]/.test(found.text));
      const command = await text(page, ".command code");
      assert.ok(command.startsWith("$ longhaul explain $'/runs/<img"), command.slice(0, 80));
      assert.ok(command.includes("__proto__\\'$(id)"), command.slice(0, 160));
    });
});

test("values that are not finite are marks, and no zeros", async () => {
  await withPage((server) => {
    server.view.series.loss = curve([3, 2, NaN, NaN]);
    server.view.run.loss = null;
  }, async (page) => {
    await waitForState(page, "live");
    assert.equal(await text(page, "#fact-loss"), "not finite");
    await page.click("#loss details summary");
    await page.waitForSelector("#loss details table");
    assert.match(await text(page, "#loss details"), /1 not finite/);
  });
});

test("the page goes on after a lost stream where it was, and shows each step once", async () => {
  await withPage(() => {}, async (page, server) => {
    await waitForState(page, "live");
    await server.waitForStream();
    for (let i = 0; i < 5; ++i) server.sendStep(2_000 + i, 51 + i, 1, 52 + i);
    await page.waitForFunction(() => document.querySelector("#fact-step").textContent
      .startsWith("55"), {polling: 50});
    server.cutStreams();
    const seen = () => server.requests.filter(({url}) => url.includes("/events")).at(-1);
    while (seen().lastEventId === undefined) await new Promise((done) => setTimeout(done, 50));
    assert.equal(seen().lastEventId, "2004");
    await server.waitForStream();
    server.sendStep(2_004, 55, 99, 56);  // again: not counted
    server.sendStep(2_005, 56, 0.5, 57);
    await page.waitForFunction(() => document.querySelector("#fact-step").textContent
      .startsWith("56"), {polling: 50});
    await page.click("#loss details summary");
    await page.waitForSelector("#loss details table");
    const steps = await page.$$eval("#loss details tbody tr", (rows) =>
      rows.filter((row) => row.cells[2].textContent === "Loss").slice(0, 6)
        .map((row) => [row.cells[1].textContent, row.cells[5].textContent]));
    assert.deepEqual(steps, [["56", "0.5"], ["55", "1"], ["54", "1"], ["53", "1"],
      ["52", "1"], ["51", "1"]]);
  });
});

test("a page that was too slow requests the view again", async () => {
  await withPage(() => {}, async (page, server) => {
    await waitForState(page, "live");
    await server.waitForStream();
    server.view.run.step = 77;
    server.view.as_of = "9000";
    server.send(9_000, "reset");
    await page.waitForFunction(() => document.querySelector("#fact-step").textContent
      .startsWith("77"), {polling: 50});
    await server.waitForStream();
    assert.ok(server.requests.at(-1).url.includes("after=9000"), server.requests.at(-1).url);
  });
});

test("the end of a run is shown although its controller has ended, too", async () => {
  await withPage(() => {}, async (page, server) => {
    await waitForState(page, "live");
    await server.waitForStream();
    server.answer = "fail";
    server.send(2_000, "state", {at_ns: Date.now() * 1e6, state: {state: "succeeded", reason: ""}});
    server.send(null, "end");
    await page.waitForFunction(() => document.querySelector("#fact-state").textContent
      .includes("succeeded"), {polling: 50});
    await page.waitForFunction(() => document.querySelector("#connection").textContent
      .includes("ended"), {polling: 50});
    await waitForState(page, "live");
  });
});

test("a view from before the end does not undo the end", async () => {
  await withPage(() => {}, async (page, server) => {
    await waitForState(page, "live");
    await server.waitForStream();
    let answer;
    server.viewAnswer = new Promise((done) => (answer = done));
    server.send(2_000, "message", {});
    while (!server.requests.at(-1).url.includes("series=false")) {
      await new Promise((done) => setTimeout(done, 20));
    }
    server.send(2_001, "state", {at_ns: Date.now() * 1e6, state: {state: "succeeded", reason: ""}});
    await page.waitForFunction(() => document.querySelector("#connection").textContent
      .includes("ended"), {polling: 50});
    answer();
    server.viewAnswer = null;
    server.answer = "fail";
    await new Promise((done) => setTimeout(done, 500));
    assert.match(await text(page, "#connection"), /ended/);
    assert.match(await text(page, "#fact-state"), /succeeded/);
  });
});

test("keys work as soon as views can be chosen", async () => {
  let open;
  await withPage((server) => (server.opened = new Promise((done) => (open = done))),
    async (page) => {
      await page.keyboard.press("g");
      await page.keyboard.press("c");
      assert.equal(await page.$("#page nav"), null);
      open();
      await page.waitForSelector("nav");
      await page.keyboard.press("g");
      await page.keyboard.press("c");
      await page.waitForSelector('#map[data-state="live"]');
    }, "#t=abc", "#page");
});

test("a snapshot lessens what a fault would lose", async () => {
  await withPage(() => {}, async (page, server) => {
    await waitForState(page, "live");
    await server.waitForStream();
    server.send(2_000, "snapshot", {at_ns: Date.now() * 1e6,
      snapshot: {step: 48, tier: "memory", seconds: 0.01, bytes: 100}});
    await page.waitForFunction(() => document.querySelector("#fact-loss-now").textContent
      .includes("2 steps since the snapshot of step 48"), {polling: 50});
  });
});

test("keys move between rows, zoom and show their list", async () => {
  await withPage(() => {}, async (page) => {
    await waitForState(page, "live");
    await page.keyboard.press("j");
    assert.equal(await page.evaluate(() => document.activeElement.dataset.fault), "1");
    await page.keyboard.press("j");
    assert.equal(await page.evaluate(() => document.activeElement.closest("section").id), "nodes");
    await page.keyboard.type("+");
    await page.keyboard.type("0");
    await page.focus("#loss .chart");
    await page.keyboard.press("ArrowLeft");
    assert.match(await text(page, "#loss .cursor"), /step \d+/);
    await page.keyboard.type("?");
    await page.waitForSelector("#keys");
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => document.querySelector("#keys") === null);
  });
});

test("a long run keeps the page small", async () => {
  await withPage((server) => {
    for (const name of ["loss", "goodput", "tokens_per_second"]) {
      server.view.series[name] = structuredClone(EMPTY_CURVE);
    }
  }, async (page, server) => {
    await server.waitForStream();
    for (let i = 0; i < 20_000; ++i) server.sendStep(2_000 + i, 51 + i, i % 97, 60 + i);
    await page.waitForFunction(() => document.querySelector("#fact-step").textContent
      .startsWith("20,050"), {polling: 100, timeout: 60_000});
    const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
    assert.ok(nodes < 2_000, `${nodes} elements`);
  });
});

const CLUSTER_PANELS = ["map", "occupancy", "queues", "waiting"];

async function withCluster(prepare, body) {
  await withPage(prepare, body, "#/cluster");
}

const FAULT_PANELS = ["fault", "fault-timeline", "fault-story", "fault-evidence"];
const stages = (page) => page.$$eval("#fault-timeline tbody tr", (rows) =>
  Object.fromEntries(rows.map((row) => [row.dataset.stage, row.dataset.state])));

test("a fault shows its cost, its stages, its story and what is missing", async () => {
  await withPage(() => {}, async (page) => {
    await waitForState(page, "live", FAULT_PANELS);
    const shown = await panels(page);
    assert.match(shown.fault.text, /Fault 1 of 1.*recovered in 5.0 s/);
    assert.match(shown.fault.text, /0.750 s.*3.000 accelerator-seconds/);
    assert.match(shown["fault-timeline"].text, /Detection.*100 ms \(goal 1.0 ms\)/);
    assert.match(shown["fault-story"].text, /The controller decided: restart/);
    assert.match(shown["fault-evidence"].text, /\+19.9 msWorker 2 ended/);
    assert.match(shown["fault-evidence"].text, /barrier/);
    assert.match(await text(page, "#fault-notes"), /events.jsonl is cut off/);
    assert.match(shown.faults.text, /longhaul explain .* --fault 1/);
  }, "#/run/gpt-1/faults/1");
});

test("a fault in progress shows the stages reached so far, and goes on live", async () => {
  const open = (server) => {
    Object.assign(server.view.faults[0], {first_step_at_ms: 0, new_step_at_ms: 0, action: ""});
    server.faults[1] = faultView(1, undefined, true);
  };
  await withPage(open, async (page, server) => {
    await waitForState(page, "live", FAULT_PANELS);
    assert.match(await text(page, "#fault-state"), /in progress for [23]\d s/);
    assert.match(await text(page, "#fault-cost"), /not known yet/);
    const before = await stages(page);
    assert.deepEqual([before.Detection, before["Diagnosis and decision"], before.Restart,
      before.Restore], ["done", "done", "running", "absent"]);
    await server.waitForStream();
    server.faults[1] = faultView(1);
    Object.assign(server.view.faults[0], {first_step_at_ms: Date.now(), action: "restart"});
    server.send(2000, "fault");
    await page.waitForFunction(() =>
      document.querySelector("#fault-state").textContent.includes("recovered"));
    assert.equal((await stages(page)).Restore, "done");
  }, "#/run/gpt-1/faults");
});

test("faults are opened and changed with the keyboard", async () => {
  const three = (server) => {
    const [first] = server.view.faults;
    server.view.faults = [1, 2, 3].map((number) => ({...first, number, what: `fault ${number}`}));
    server.view.faults_total = 3;
    server.faults = {1: faultView(1, "fault 1"), 2: faultView(2, "fault 2"),
      3: faultView(3, "fault 3")};
  };
  const shows = (page, number) => page.waitForFunction((wanted) =>
    document.querySelector("#fault .what")?.textContent.includes(wanted), {}, `fault ${number}`);
  await withPage(three, async (page) => {
    await waitForState(page, "live");
    await page.focus('#faults tr[data-fault="2"]');
    await page.keyboard.press("Enter");
    await shows(page, 2);
    assert.equal(await page.evaluate(() => location.hash), "#/run/gpt-1/faults/2");
    await page.keyboard.type("[");
    await shows(page, 1);
    await page.keyboard.type("[");
    await page.keyboard.type("]]");
    await shows(page, 3);
    await page.click('#faults tr[data-fault="1"] a');
    await shows(page, 1);
    await page.keyboard.type("gf");
    await shows(page, 3);
    await page.keyboard.type("gr");
    await page.waitForSelector("#loss");
    assert.equal(await page.evaluate(() => location.hash), "#/run/gpt-1");
  });
});

test("a run without a fault has an empty fault view", async () => {
  await withPage((server) => (server.view = newRun()), async (page) => {
    await waitForState(page, "empty", FAULT_PANELS);
    assert.match((await panels(page)).fault.text, /No fault so far/);
  }, "#/run/gpt-1/faults");
});

test("a story that cannot be read shows the cause and is repaired", async () => {
  await withPage((server) => (server.faults = {}), async (page, server) => {
    await waitForState(page, "error", FAULT_PANELS);
    assert.match((await panels(page)).fault.text, /no such fault/);
    server.faults = {1: faultView(1)};
    await page.click("#fault .notice button");
    await waitForState(page, "live", FAULT_PANELS);
  }, "#/run/gpt-1/faults/1");
});

test("texts in a fault's story stay texts", async () => {
  const bad = "<img src=x onerror=alert(1)></script>\u202e\u0000 __proto__ \u001b[31m";
  const hostile = (server) => {
    server.view = fullRun(bad);
    server.faults[1] = faultView(1, bad);
    server.faults[1].notes = [bad];
    server.faults[1].advice = bad;
    server.faults[1].fault.output.push("x".repeat(1_000_000));
  };
  await withPage(hostile, async (page) => {
    await waitForState(page, "live", FAULT_PANELS);
    const found = await page.evaluate(() => ({
      images: document.querySelectorAll("main img, main script").length,
      text: document.querySelector("main").textContent,
    }));
    assert.equal(found.images, 0);
    assert.ok(found.text.includes("<img src=x"));
    assert.ok(!/[\u202e\u0000\u001b]/.test(found.text));
    assert.ok(found.text.length < 20_000);
  }, "#/run/gpt-1/faults/1");
});

test("the cluster's panels are loading, then live, and name what is broken", async () => {
  await withCluster((server) => (server.answer = "hang"), async (page) => {
    await waitForState(page, "loading", CLUSTER_PANELS);
  });
  await withCluster(() => {}, async (page) => {
    await waitForState(page, "live", CLUSTER_PANELS);
    assert.match(await text(page, "#map-summary"),
      /200 nodes: 196 ready, 4 down\. 1,0\d\d of 1,600 slots used/);
    const broken = await page.$$eval("#not-ready tbody tr", (rows) =>
      rows.map((row) => row.cells[0].textContent));
    assert.deepEqual(broken, ["node-7", "node-57", "node-107", "node-157"]);
    assert.match((await panels(page)).queues.text, /research600400200/, "used, guaranteed");
    assert.match((await panels(page)).waiting.text, /64 workers need 8 free nodes/);
    assert.match((await panels(page)).waiting.text, /in nine of ten cases before/);
    await page.click("#map details summary");
    await page.waitForFunction(() => document.querySelectorAll("#map details tr").length === 21);
  });
});

test("the use of the accelerators is shown now and over time", async () => {
  await withCluster(() => {}, async (page) => {
    await waitForState(page, "live", CLUSTER_PANELS);
    assert.equal(await text(page, "#in-use"), "62.5 %");
    assert.match(await text(page, "#fragments"), /Of the 500 that are free .* 20.0 % are fragments/);
    assert.match(await page.$eval("#occupancy .chart", (chart) => chart.ariaLabel),
      /in periods of 10 s\. The newest period has in use 62.5 %, free in fragments 6.3 %/);
    await page.click("#occupancy-table summary");
    await page.waitForSelector("#occupancy-table tbody tr");
    const newest = await page.$$eval("#occupancy-table tbody tr:first-child td.number", (cells) =>
      cells.map((cell) => cell.textContent));
    assert.deepEqual(newest, ["1,000", "100", "400", "100"]);
    await setTheme(page, "dark");
    assert.deepEqual(await accessibility(page), []);
  });
});

test("an empty cluster says how a node joins", async () => {
  await withCluster((server) => {
    server.cluster = {...cluster(0), queues: [], waiting: [], waiting_total: 0,
      occupancy: null};
  }, async (page) => {
    await waitForState(page, "empty", CLUSTER_PANELS);
    assert.match((await panels(page)).map.text, /No node has joined yet/);
  });
});

test("a failure of the cluster's view shows its cause and is repaired", async () => {
  await withCluster(() => {}, async (page, server) => {
    await waitForState(page, "live", CLUSTER_PANELS);
    server.answer = "fail";
    await waitForState(page, "error", CLUSTER_PANELS);
    assert.match((await panels(page)).map.text, /the disk is full/);
    server.answer = "good";
    await page.click("#map .notice button");
    await waitForState(page, "live", CLUSTER_PANELS);
  });
});

test("keys show the cluster and the run, and move over the map", async () => {
  await withPage(() => {}, async (page) => {
    await waitForState(page, "live");
    await page.keyboard.type("gc");
    await waitForState(page, "live", CLUSTER_PANELS);
    assert.equal(await page.evaluate(() => location.hash), "#/cluster");
    await page.focus(".map-holder");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    assert.match(await text(page, "#map .cursor"), /node-1, block-1 leaf-1, ready, 8 of 8.*gpt-1/);
    await page.keyboard.press("ArrowDown");
    assert.match(await text(page, "#map .cursor"), /node-11, block-1 leaf-2/);
    await page.keyboard.type("gr");
    await waitForState(page, "live");
    assert.equal(await page.evaluate(() => location.hash), "#/run/gpt-1");
  });
});

test("names in the cluster's view stay texts", async () => {
  const hostile = "<img src=x onerror=alert(1)>\u202e\u0000";
  await withCluster((server) => (server.cluster = cluster(60, hostile)), async (page) => {
    await waitForState(page, "live", CLUSTER_PANELS);
    const found = await page.evaluate(() => ({
      images: document.querySelectorAll("#page img").length,
      text: document.body.textContent,
    }));
    assert.equal(found.images, 0);
    assert.ok(!/[\u202e\u0000]/.test(found.text));
    assert.ok(found.text.includes("<img src=x onerror=alert(1)>\\u202e\\u0000-7"));
  });
});

test("5,000 nodes are drawn, with few elements", async () => {
  await withCluster((server) => (server.cluster = cluster(5_000)), async (page) => {
    await waitForState(page, "live", CLUSTER_PANELS);
    assert.match(await text(page, "#map-summary"), /5,000 nodes/);
    assert.match((await panels(page)).map.text, /down/);
    const elements = await page.evaluate(() => document.querySelectorAll("*").length);
    assert.ok(elements < 1_500, `${elements} elements`);
    if (process.env.PAGE_SCREENSHOTS) {
      await page.screenshot({path: `${process.env.PAGE_SCREENSHOTS}/cluster-5000.png`});
    }
  });
});
