/** The requests in both schemes and four widths: nothing is too wide or cut off, and axe-core has no complaint. */

import assert from "node:assert/strict";
import { week } from "../past.mjs";
import { profiles } from "../samples.mjs";
import { until } from "../browser.mjs";

const WIDTHS = [[360, 740], [1280, 900], [1440, 900], [1920, 1080]];

/** What leaves the window, or its own box, although it is not in a part that scrolls. */
const OVERFLOWING = () => {
  const found = [];
  if (document.documentElement.scrollWidth > innerWidth) found.push(`the page: ${document.documentElement.scrollWidth}`);
  for (const element of document.querySelectorAll("#view button, #view input, #view select, #view a, #view h1, #view h2, .detail dd, .detail blockquote, .list-end *")) {
    const box = element.getBoundingClientRect();
    if (box.width === 0 || element.closest("table, .segments, .unseen")) continue;
    if (box.left < -0.5 || box.right > innerWidth + 0.5) found.push(`${element.tagName} ${element.textContent.slice(0, 30)}: ${box.left} to ${box.right}`);
  }
  for (const cell of document.querySelectorAll(".scroll:not(.as-cards) td:nth-child(-n+2)")) {
    if (cell.scrollWidth > cell.clientWidth) found.push(`${cell.textContent} is ${cell.scrollWidth} wide in ${cell.clientWidth}`);
  }
  const room = document.querySelector(".scroll:not(.as-cards)")?.getBoundingClientRect();
  for (const key of room ? ["status", "cost", "error"] : []) {
    const box = document.querySelector(`th[data-key="${key}"]`).getBoundingClientRect();
    if (box.width === 0 || box.right > room.right + 0.5) found.push(`the column ${key} is not in sight`);
  }
  return found;
};

export default async function scenario(browser) {
  await browser.stub("profiles", profiles());
  await browser.stub("past", week());
  for (const scheme of ["light", "dark"]) {
    for (const [width, height] of WIDTHS) {
      const page = await browser.open("#/requests", { width, height, scheme, reducedMotion: "reduce" });
      await page.getByRole("button", { name: "Load older" }).waitFor();
      const name = `requests-${width}-${scheme}`;
      await browser.picture(page, name, false);
      assert.deepEqual(await page.evaluate(OVERFLOWING), [], name);
      await browser.audit(page, name);

      await page.evaluate(() => { location.hash = "#/requests?range=7d&status=5xx&client=alice&provider=main"; });
      await until("the filters", async () => (await page.locator(".chosen .chip").count()) === 3);
      await until("the rows", async () => (await page.locator(".list-end").innerText()).includes("No older requests match"));
      await page.locator("button.row").first().click();
      await page.getByText("The provider's message").waitFor();
      await browser.picture(page, `${name}-detail`, false);
      assert.deepEqual(await page.evaluate(OVERFLOWING), [], `${name} with details`);
      await browser.audit(page, `${name} with details`);
      await page.context().close();
    }
  }
}
