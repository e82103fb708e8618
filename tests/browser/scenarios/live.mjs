/** What happens is shown without loading the page again: totals, the feed, a filter, a pause, and the details. */

import assert from "node:assert/strict";
import { event, history, profiles } from "../samples.mjs";
import { tile, until } from "../browser.mjs";

export default async function scenario(browser) {
  await browser.stub("profiles", profiles());
  await browser.stub("events", history());
  const page = await browser.open();
  await until("the totals", async () => (await tile(page, "Requests")) === "40");
  await page.evaluate(() => { window.sameDocument = true; });
  await browser.stub("events", [event(100), event(101)]);
  await until("new totals", async () => (await tile(page, "Requests")) === "42");

  await page.getByRole("link", { name: "Requests" }).click();
  const ended = page.getByRole("region", { name: /^Completed requests/ });
  await until("two completed requests", async () => (await ended.locator("tbody tr").count()) === 2);

  const name = "<img src=x onerror='window.broken = true'>";
  await browser.stub("events", [event(102, { model: name, client: "bob", status: "rejected", http_status: 429 })]);
  await ended.getByText(name).waitFor();
  assert.equal(await page.evaluate(() => window.broken), undefined);

  await page.getByLabel("Client").selectOption("bob");
  assert.equal(await ended.locator("tbody tr").count(), 1);
  await page.getByLabel("Client").selectOption("");
  await page.getByRole("button", { name: "Pause" }).click();
  await browser.stub("events", [event(103)]);
  await page.getByRole("button", { name: "Resume (1 new)" }).waitFor();
  assert.equal(await ended.locator("tbody tr").count(), 3);
  await page.getByRole("button", { name: /Resume/ }).click();
  await until("four rows", async () => (await ended.locator("tbody tr").count()) === 4);

  await ended.locator("button.row").first().focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  const details = page.getByRole("complementary", { name: "Request details" });
  await details.getByText("request-102").waitFor();
  await browser.picture(page, "requests-details");
  await page.keyboard.press("Escape");
  assert.ok(!(await details.isVisible()));
  assert.equal(await page.evaluate(() => document.activeElement.closest("tr")?.dataset.row), "request-102");

  await browser.stub("events", Array.from({ length: 700 }, (_, index) => event(1000 + index)));
  await until("the newest of many", () => ended.locator('tr[data-row="request-1699"]').isVisible());
  assert.equal(await ended.locator("tbody tr").count(), 500);

  await page.getByRole("link", { name: "Logs" }).click();
  await page.getByText("the first line").waitFor();
  await browser.stub("feed", [["log", { time: new Date().toISOString(), level: "error", text: "<b>a new line</b>" }]]);
  await page.getByText("<b>a new line</b>").waitFor();
  await page.getByRole("button", { name: "Error+" }).click();
  await until("one line", async () => (await page.locator(".log tbody tr").count()) === 1);
  assert.ok(await page.evaluate(() => window.sameDocument));
}
