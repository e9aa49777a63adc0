// Follows a run in Chromium until it has ended and its controller with it. Prints what is shown.
//
// usage: follow_to_end.mjs CHROMIUM ADDRESS
import {launch, open} from "./browser.mjs";

const [chromium, address] = process.argv.slice(2);
const WAIT = {timeout: 90_000, polling: 100};
const SHOWN = ["#fact-state", "#fact-step", "#fact-faults", "#connection"];

const browser = await launch(chromium);
try {
  const origin = new URL(address).origin;
  const {page, record} = await open(browser, origin);
  await page.goto(address);
  await page.waitForFunction(
    () => document.querySelector("#connection")?.textContent.includes("ended"), WAIT);
  // Until the controller is gone, too; the page must not take that for a failure.
  for (let answers = true; answers;) {
    answers = await fetch(`${origin}/v1/healthz`).then(() => true, () => false);
    await new Promise((done) => setTimeout(done, 200));
  }
  const shown = await page.evaluate((selectors) => Object.fromEntries(
    selectors.map((each) => [each, document.querySelector(each).textContent.trim()])), SHOWN);
  const state = await page.$eval("#ledger", (panel) => panel.dataset.state);
  console.log(JSON.stringify({shown, state, errors: record.errors}));
} finally {
  await browser.close();
}
