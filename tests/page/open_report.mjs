// Opens a report.html from the disk in Chromium. Prints one JSON object of what it saw.
//
// usage: open_report.mjs CHROMIUM FILE [FOLDER]
//   FOLDER gets report-light.png and report-fault.png
import {pathToFileURL} from "node:url";

import {accessibility, launch, open, panels, setTheme} from "./browser.mjs";

const [chromium, file, folder] = process.argv.slice(2);
const WAIT = {timeout: 20_000, polling: 50};
const address = pathToFileURL(file).href;

const browser = await launch(chromium);
try {
  const seen = {};
  const {page, record} = await open(browser, "");
  const requests = [];
  page.on("request", (request) => requests.push(request.url().split("#")[0]));
  await setTheme(page, "light");
  await page.goto(address);
  await page.waitForSelector("#headline .content", WAIT);
  await page.waitForFunction(() => document.querySelectorAll("canvas").length >= 2, WAIT);
  seen.title = await page.title();
  seen.run = await panels(page);
  seen.accessibility = [await accessibility(page)];
  if (folder) await page.screenshot({path: `${folder}/report-light.png`, fullPage: true});
  await setTheme(page, "dark");
  seen.accessibility.push(await accessibility(page));

  await page.keyboard.type("gc");  // a report has no cluster
  await page.keyboard.type("gf");
  await page.waitForSelector("#fault .content, #fault .soft", WAIT);
  seen.fault = await panels(page);
  seen.hash = await page.evaluate(() => location.hash);
  seen.accessibility.push(await accessibility(page));
  if (folder) await page.screenshot({path: `${folder}/report-fault.png`, fullPage: true});
  await setTheme(page, "light");
  seen.accessibility.push(await accessibility(page));
  // The address of a fault works from the disk, too.
  await page.goto("about:blank");
  await page.goto(`${address}${seen.hash}`);
  await page.waitForSelector("#fault-timeline", WAIT);
  await page.click("footer summary");
  seen.licences = await page.$eval("footer pre", (element) => element.textContent);
  seen.scripts = await page.evaluate(() => globalThis.alerted ?? 0);
  // The policy refuses a script that a text might have smuggled in.
  seen.injected = await page.evaluate(() => {
    try {
      const script = document.createElement("script");
      script.text = "globalThis.alerted = 1";
      document.head.append(script);
    } catch (error) {
      return String(error.name);
    }
    return globalThis.alerted ?? "refused";
  });
  seen.requests = [...new Set(requests)].map((url) => (url === address ? "the report" : url));
  seen.errors = record.errors.filter((text) => !text.includes("TrustedScript") &&
    !text.includes("Content Security Policy"));
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
}
