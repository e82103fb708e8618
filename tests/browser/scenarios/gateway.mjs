/** Before a gateway under load: the page says what the API says, and follows it. */

import assert from "node:assert/strict";
import { columns, tile, until } from "../browser.mjs";

const KEY = process.env.MGW_EDGE_KEY;

async function ask(base, model, stream = false) {
  const headers = { "Authorization": `Bearer ${KEY}`, "Content-Type": "application/json" };
  const body = JSON.stringify({ model, stream, messages: [{ role: "user", content: "Say something." }] });
  await (await fetch(`${base}/v1/chat/completions`, { method: "POST", headers, body })).text();
}

const add = (values) => values.reduce((total, value) => total + Number(value.replace(/[$,]/g, "")), 0);

export default async function scenario(browser) {
  for (let number = 0; number < 20; number += 1) await ask(browser.base, number % 2 ? "fast" : "main/gpt-other", number % 3 === 0);
  await ask(browser.base, "nowhere/at-all");

  const page = await browser.open("#/overview?by=model");
  await page.getByLabel("Key").fill("wrong");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").filter({ hasText: "does not give access" }).waitFor();
  await page.getByLabel("Key").fill(process.env.MGW_DASHBOARD_KEY);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  await page.getByText("Live", { exact: true }).waitFor();

  const { totals, groups } = await page.evaluate(async () => (await fetch("v1/dashboard/usage?by=model")).json());
  assert.ok(totals.requests >= 20);
  await until("the totals", async () => (await tile(page, "Requests")) === String(totals.requests));
  assert.equal(await tile(page, "Tokens out"), new Intl.NumberFormat("en").format(totals.tokens_out));
  for (const group of groups.filter(({ key }) => key !== undefined)) {
    assert.equal(add((await columns(page, "Requests"))[group.key]), group.requests);
  }
  await browser.picture(page, "gateway-overview");
  await page.evaluate(() => { window.sameDocument = true; });
  await ask(browser.base, "fast");
  await until("one more", async () => (await tile(page, "Requests")) === String(totals.requests + 1));

  await page.getByRole("link", { name: "Requests" }).click();
  await ask(browser.base, "fast", true);
  const ended = page.getByRole("region", { name: /^Completed requests/ });
  await until("two completed requests", async () => (await ended.locator("tbody tr").count()) === 2);
  for (const [view, words] of [["Providers", "main"], ["Models", "fast"], ["Logs", "mgw serves"]]) {
    await page.getByRole("link", { name: view }).click();
    await page.locator("#view").getByText(words).first().waitFor();
    await browser.picture(page, `gateway-${view}`);
    await browser.audit(page, view);
  }
  assert.ok(await page.evaluate(() => window.sameDocument));
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in to the dashboard" }).waitFor();
}
