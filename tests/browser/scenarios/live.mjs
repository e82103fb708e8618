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
  const ended = page.getByRole("region", { name: "Requests, newest first" });
  await until("the requests, and one in progress", async () => (await ended.locator("tbody tr").count()) === 43);

  const name = "<img src=x onerror='window.broken = true'>";
  await browser.stub("events", [event(102, { model: name, client: "bob", status: "rejected", http_status: 429 })]);
  await ended.getByText(name).waitFor();
  assert.equal(await page.evaluate(() => window.broken), undefined);

  await page.getByLabel("Client").fill("bob");
  await page.keyboard.press("Enter");
  await until("bob's requests", async () => (await ended.locator("tbody tr").count()) === 21);
  await page.getByRole("button", { name: "Remove the filter Client: bob" }).click();
  await until("all requests", async () => (await ended.locator("tbody tr").count()) === 44);
  await page.getByRole("button", { name: "Pause" }).click();
  await browser.stub("events", [event(103)]);
  await page.getByRole("button", { name: "Resume (1 new)" }).waitFor();
  assert.equal(await ended.locator("tbody tr").count(), 44);
  await page.getByRole("button", { name: /Resume/ }).click();
  await until("one more row", async () => (await ended.locator("tbody tr").count()) === 45);

  await ended.locator('tr[data-row="request-103"] button.row').focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  const details = page.getByRole("complementary", { name: "Request details" });
  await details.getByText("request-102").waitFor();
  await browser.picture(page, "requests-details");
  await page.keyboard.press("Escape");
  assert.ok(!(await details.isVisible()));
  assert.equal(await page.evaluate(() => document.activeElement.closest("tr")?.dataset.row), "request-102");

  await browser.stub("events", Array.from({ length: 2500 }, (_, index) => event(10_000 + index)));
  await until("the newest of many", () => ended.locator('tr[data-row="request-12499"]').isVisible());
  await until("no more rows than a page can bear", async () => (await ended.locator("tbody tr").count()) === 1001);

  await page.getByRole("link", { name: "Logs" }).click();
  await page.getByText("the first line").waitFor();
  await browser.stub("feed", [["log", { time: new Date().toISOString(), level: "error", text: "<b>a new line</b>" }]]);
  await page.getByText("<b>a new line</b>").waitFor();
  await page.getByRole("button", { name: "Error+" }).click();
  await until("one line", async () => (await page.locator(".log tbody tr").count()) === 1);
  assert.ok(await page.evaluate(() => window.sameDocument));
}
