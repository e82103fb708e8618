/** The view of limits: bars, numbers and times, what is used up first; and estimated numbers, which carry a sign. */

import assert from "node:assert/strict";
import { event, history, profiles } from "../samples.mjs";
import { until } from "../browser.mjs";

export default async function scenario(browser) {
  await browser.stub("profiles", profiles());
  await browser.stub("events", [...history(), event("untold", { tokens_in: undefined, tokens_out: 40, tokens_in_estimated: 900, cost_usd: undefined, charged_usd: 0.02, client_groups: ["research"], tags: { team: "nlp", "<img/src=x>": "<img src=x onerror='window.harmed=1'>" }, limit_warnings: ["alice usd_per_day 0.8"] })]);
  const page = await browser.open("#/limits");
  const rows = page.getByRole("region", { name: "Limits" }).locator("tbody tr");
  await until("limits", async () => (await rows.count()) === 3);
  const texts = await rows.allInnerTexts();
  const cells = texts.map((text) => text.split(/\s*\t\s*|\n/).map((cell) => cell.trim()).filter(Boolean));
  assert.deepEqual(cells.map(([holder]) => holder), ["alice (each of group research)", "Group research", "All clients"]);
  assert.ok(cells[0].includes("120%") && cells[0].includes("12 of 10") && cells[0].includes("never"), texts[0]);
  assert.ok(cells[2].includes("US dollars per month") && cells[2].includes("$811.42 of $2000.00"), texts[2]);
  assert.match(await page.getByRole("status").filter({ hasText: "used up" }).innerText(), /1 limit is used up/);
  const widths = await rows.nth(2).locator(".track span").evaluateAll((bars) => bars.map((bar) => bar.getBoundingClientRect().width / bar.parentElement.clientWidth));
  assert.ok(Math.abs(widths[0] - 0.4057) < 0.02 && Math.abs(widths[1] - 0.05) < 0.02, String(widths));
  await page.getByLabel("Filter by name").fill("bob");
  await until("the filter", async () => (await rows.count()) === 0);
  assert.match(await page.getByRole("region", { name: "Gateway keys" }).locator("tbody").innerText(), /bob\s+expired/);
  await browser.audit(page, "limits");

  await page.evaluate(() => { location.hash = "#/requests"; });
  const request = page.getByRole("row").filter({ hasText: "~900 → 40" });
  await request.locator("button.row").click();
  const detail = page.getByRole("complementary", { name: "Request details" });
  const said = await detail.innerText();
  for (const words of ["research", "team: nlp", "~900", "~$0.02", "alice usd_per_day 0.8", "<img/src=x>: <img src=x onerror='window.harmed=1'>"]) assert.ok(said.includes(words), `${words}: ${said}`);
  assert.equal(await page.evaluate(() => window.harmed), undefined, "tags are text");

  await browser.stub("set", { clients: 9000 });
  await page.evaluate(() => { location.hash = "#/limits"; });
  await until("many limits", async () => (await rows.count()) === 500);
  assert.match(await rows.first().innerText(), /alice/, "what is used up most comes first, of all rows");
  assert.equal(await page.getByText("500 of 9,003 rows").count(), 1);
  assert.equal(await page.getByText("500 of 9,002 keys").count(), 1);
  await page.getByLabel("Filter by name").fill("client-8999");
  await until("one of many", async () => (await rows.count()) === 1);
}
