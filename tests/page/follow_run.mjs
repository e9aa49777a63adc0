// Follows a run in Chromium from its printed address. Prints one JSON object of what it saw.
//
// usage: follow_run.mjs CHROMIUM ADDRESS FOLDER
//   FOLDER gets light.png, dark.png, fault-light.png, fault-dark.png and cluster.png
import {accessibility, launch, open, panels, setTheme} from "./browser.mjs";

const [chromium, address, folder] = process.argv.slice(2);
const origin = new URL(address).origin;
const WAIT = {timeout: 90_000, polling: 100};

// What the page shows, and what REST reports, in one turn of the page's script.
function compare() {
  const number = (selector) => {
    const element = document.querySelector(selector);
    return element === null ? null : element.textContent;
  };
  const values = (selector, key) =>
    [...document.querySelectorAll(selector)].map((each) => Number(each.dataset[key]));
  return {
    step: number("#fact-step"),
    faults: number("#fact-faults"),
    costs: values("#faults td[data-cost]", "cost"),
    ledger: Object.fromEntries([...document.querySelectorAll("#ledger tbody tr")]
      .filter((row) => row.querySelector("td[data-value]") !== null)
      .map((row) => [row.cells[0].textContent, Number(row.cells[1].dataset.value)])),
    nodes: [...document.querySelectorAll("#nodes tbody tr")].map((row) => row.cells[0].textContent),
  };
}

// The rows of the loss as a table: "Loss 120" -> the numbers of the period that ends at this step.
async function lossRows(page) {
  await page.waitForSelector("#loss details");
  await page.evaluate(() => (document.querySelector("#loss details").open = true));
  await page.waitForFunction(() => document.querySelectorAll("#loss details tr").length > 20, WAIT);
  return page.evaluate(() => Object.fromEntries(
    [...document.querySelectorAll("#loss details tbody tr")].map((row) => [
      `${row.cells[2].textContent} ${row.cells[1].textContent}`,
      [3, 4, 5].map((i) => row.cells[i].textContent).join(" "),
    ])));
}

async function rest(page) {
  return page.evaluate(async () => {
    const runs = await (await fetch("/v1/view/runs")).json();
    return (await fetch(`/v1/jobs/${runs.runs[0].id}`)).json();
  });
}

// The view of the run, whose parts belong to one moment.
async function view(page) {
  return page.evaluate(async () => {
    const runs = await (await fetch("/v1/view/runs")).json();
    return (await fetch(`/v1/view/run/${runs.runs[0].id}`)).json();
  });
}

const browser = await launch(chromium);
try {
  const seen = {};
  const {page, record} = await open(browser, origin);
  await setTheme(page, "light");
  await page.goto(address);
  await page.waitForSelector("#fact-step", WAIT);
  seen.hash = await page.evaluate(() => location.hash);
  seen.cookieForScripts = await page.evaluate(() => document.cookie);

  // The fault has happened, and the run is beyond it.
  await page.waitForFunction(
    () => document.querySelector('#faults tr[data-fault="1"]')?.textContent.includes("in "), WAIT);
  const loss = await page.$eval("#fact-loss", (element) => element.textContent);
  await page.waitForFunction(
    (before) => document.querySelector("#fact-loss").textContent !== before, WAIT, loss);
  await new Promise((done) => setTimeout(done, 3_000));
  seen.before = await rest(page);
  const stepBefore = await page.$eval("#fact-step", (element) => element.textContent);
  await page.waitForFunction(
    (step) => document.querySelector("#fact-step").textContent !== step, WAIT, stepBefore);
  // One refresh of the view later, all that is shown is newer than `before`.
  await page.waitForResponse((answer) => answer.url().includes("series=false"), {timeout: 30_000});
  await new Promise((done) => setTimeout(done, 200));
  seen.shown = await page.evaluate(compare);
  seen.panels = await panels(page);
  seen.after = await rest(page);
  seen.view = await view(page);

  await page.screenshot({path: `${folder}/light.png`, fullPage: true});
  seen.accessibilityLight = await accessibility(page);
  await setTheme(page, "dark");
  await new Promise((done) => setTimeout(done, 300));
  await page.screenshot({path: `${folder}/dark.png`, fullPage: true});
  seen.accessibilityDark = await accessibility(page);

  // The fault view, by keyboard alone, with the sentences that `longhaul explain` prints.
  await setTheme(page, "light");
  await page.keyboard.type("gf");
  await page.waitForFunction(
    () => document.querySelector("#fault-state")?.textContent.includes("recovered"), WAIT);
  seen.faultHash = await page.evaluate(() => location.hash);
  seen.faultPanels = await panels(page);
  seen.faultStages = await page.$$eval("#fault-timeline tbody tr", (rows) =>
    rows.map((row) => [row.dataset.stage, row.dataset.state]));
  await page.screenshot({path: `${folder}/fault-light.png`, fullPage: true});
  seen.accessibilityFault = await accessibility(page);
  await setTheme(page, "dark");
  await new Promise((done) => setTimeout(done, 300));
  await page.screenshot({path: `${folder}/fault-dark.png`, fullPage: true});
  seen.accessibilityFaultDark = await accessibility(page);

  await page.keyboard.type("gc");
  await page.waitForSelector("#queues tbody tr", WAIT);
  seen.cluster = await page.evaluate(async () => ({
    places: [...document.querySelectorAll("#queues tbody tr")].map((row) =>
      [row.dataset.queue, row.cells[2].textContent]),
    summary: document.querySelector("#map-summary").textContent,
    inUse: document.querySelector("#in-use").textContent,
    nodes: (await (await fetch("/v1/nodes")).json()).nodes.map((node) => node.condition),
    queues: (await (await fetch("/v1/queues")).json()).queues.map((queue) =>
      [queue.name, String(queue.usage.accelerators)]),
  }));
  seen.accessibilityCluster = await accessibility(page);
  await page.screenshot({path: `${folder}/cluster.png`, fullPage: true});
  await page.keyboard.type("gr");
  await page.waitForSelector("#loss details", WAIT);

  // A page that has followed the run shows what one shows that loads now.
  const fresh = await open(browser, origin);
  await fresh.page.goto(origin);
  seen.lossLoaded = await lossRows(fresh.page);
  seen.lossFollowed = await lossRows(page);
  await fresh.page.close();

  const again = await open(browser, origin);
  await (await again.page.createCDPSession()).send("Network.clearBrowserCookies");
  await again.page.goto(address);
  await again.page.waitForSelector("#closed", WAIT);
  seen.secondUse = await again.page.$eval("#closed", (element) => element.textContent);
  seen.foreign = record.foreign;
  seen.errors = record.errors;
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
}
