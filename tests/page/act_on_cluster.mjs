// Acts on a real controller in Chromium: a viewer, who may not, then an operator. Prints one JSON
// object of what it saw.
//
// usage: act_on_cluster.mjs CHROMIUM VIEWER-ADDRESS ADMINISTRATOR-ADDRESS
import {accessibility, launch, open, setTheme} from "./browser.mjs";

const [chromium, viewer, administrator] = process.argv.slice(2);
const origin = new URL(viewer).origin;
const WAIT = {timeout: 60_000, polling: 100};
const RUN = '[data-state="live"]#nodes tbody tr';
const text = (page, selector) => page.$eval(selector, (element) => element.textContent);

// A request of the page's own script, with its cookie.
async function post(page, path, body) {
  return page.evaluate(async (url, sent) => {
    const answer = await fetch(url, {method: "POST", body: JSON.stringify(sent),
      headers: {Accept: "application/json", "Content-Type": "application/json"}});
    return [answer.status, await answer.json()];
  }, path, body);
}

// The same from outside of the browser, as another page's server would send it.
async function forge(page, path, headers) {
  const cookies = await page.cookies(origin);
  const answer = await fetch(origin + path, {method: "POST", body: "{}", headers: {
    "Content-Type": "application/json", ...headers,
    Cookie: cookies.map(({name, value}) => `${name}=${value}`).join("; ")}});
  return answer.status;
}

async function openPage(browser, address) {
  const context = await browser.createBrowserContext();
  const {page, record} = await open({newPage: () => context.newPage()}, origin);
  await page.goto(address);
  await page.waitForSelector(RUN, WAIT);
  return {page, record};
}

async function nodeOf(page) {
  return page.evaluate(async () => (await (await fetch("/v1/nodes")).json()).nodes[0]);
}

// Sends the act of the open dialog, and closes it. Returns the outcome.
async function confirm(page) {
  await page.focus("#act-send");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#act-outcome", WAIT);
  const outcome = await text(page, "#act-outcome");
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => !document.querySelector("dialog").open, WAIT);
  return outcome;
}

// From the button to the answer, by keyboard.
async function actOnNode(page, name, verb) {
  const selector = `button[data-node="${name}"][aria-label^="${verb}"]`;
  await page.waitForSelector(selector, WAIT);
  await page.focus(selector);
  await page.keyboard.press("Enter");
  await page.waitForSelector("#act-send", WAIT);
  const outcome = await confirm(page);
  return [outcome, (await nodeOf(page)).condition];
}

// Submits a job file. Returns the outcome and the run that is shown afterwards.
async function submit(page, file) {
  await page.evaluate(() => (location.hash = "#/plan"));
  await page.waitForSelector("#submit-text", WAIT);
  await page.$eval("#submit-text", (area) => area.select());
  await page.keyboard.press("Backspace");
  await page.type("#submit-text", file);
  await page.click("#submit-send");
  await page.waitForSelector("#act-send", WAIT);
  const question = await text(page, "dialog");
  const outcome = await confirm(page);
  return {question, outcome, hash: await page.evaluate(() => location.hash)};
}

const browser = await launch(chromium);
try {
  const seen = {};
  const looks = await openPage(browser, viewer);
  const {name} = await nodeOf(looks.page);
  const id = await looks.page.$eval("#runs", (choice) => choice.value);
  const stop = `/v1/jobs/${encodeURIComponent(id)}/stop`;
  const view = `/v1/view/run/${encodeURIComponent(id)}?series=false`;
  seen.id = id;
  seen.node = name;
  seen.session = await looks.page.evaluate(async () =>
    (await fetch("/v1/page/session")).json());
  seen.viewerButtons = await looks.page.$$eval("#stop, button[data-node]", (all) => all.length);
  seen.viewerForged = [(await post(looks.page, stop, {}))[0],
    (await post(looks.page, `/v1/nodes/${name}/cordon`, {}))[0]];

  const {page, record} = await openPage(browser, administrator);
  seen.foreignOrigin = [
    await forge(page, stop, {Origin: "http://evil.example"}),
    await forge(page, stop, {Origin: origin, "Sec-Fetch-Site": "cross-site"}),
    await forge(page, stop, {})];
  seen.cordoned = await actOnNode(page, name, "Cordon");
  seen.uncordoned = await actOnNode(page, name, "Uncordon");
  seen.stale = await post(page, stop, {seen: "1"});
  seen.state = await page.evaluate(async (path) => (await (await fetch(path)).json()).run.state,
    view);

  seen.submitted = await submit(page, "name: more\ncommand: [sleep, '1000']\n");
  seen.refused = await submit(page, "name: more\ncomand: [sleep, '1000']\n");
  await page.evaluate((run) => (location.hash = `#/run/${encodeURIComponent(run)}`), id);

  await page.waitForSelector("#stop", WAIT);
  await page.click("#stop");
  await page.waitForSelector("#act-word", WAIT);
  seen.question = await text(page, "dialog");
  if (process.env.PAGE_SCREENSHOTS) {
    const dialog = await page.$("dialog");
    await dialog.screenshot({path: `${process.env.PAGE_SCREENSHOTS}/act.png`});
  }
  seen.accessibility = [];
  for (const theme of ["light", "dark"]) {
    await setTheme(page, theme);
    seen.accessibility.push(...await accessibility(page));
  }
  await page.type("#act-word", "tiny");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#act-outcome", WAIT);
  seen.stopped = await text(page, "#act-outcome");
  seen.phase = await page.$eval("dialog", (dialog) => dialog.dataset.phase);
  seen.foreign = record.foreign;
  seen.errors = record.errors;
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
}
