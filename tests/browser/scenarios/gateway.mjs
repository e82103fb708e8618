/** Before a gateway under load: the page says what the API says, and follows it. */

import assert from "node:assert/strict";
import { columns, tile, until } from "../browser.mjs";

const KEY = process.env.MGW_EDGE_KEY;

async function ask(base, model, stream = false, broken = false) {
  const headers = { "Authorization": `Bearer ${KEY}`, "Content-Type": "application/json" };
  const body = JSON.stringify({ model, stream, messages: [{ role: "user", content: "Say something." }] });
  const answer = await fetch(`${base}/v1/chat/completions`, { method: "POST", headers, body: broken ? body.slice(1) : body });
  await answer.text();
  return answer.headers.get("X-Gateway-Request-Id");
}

/** The table that `hooks.sqlite` keeps says what was before the page was opened, and who asks for an id finds it. */
async function past(browser, page, id, number) {
  await page.getByRole("link", { name: "Requests", exact: true }).click();
  const rows = page.getByRole("region", { name: "Requests, newest first" }).locator("tbody tr");
  await until("all requests", async () => (await rows.count()) === number);
  await ask(browser.base, "fast", true);
  await until("one more", async () => (await rows.count()) === number + 1);
  await page.reload();
  await until("the same after a reload", async () => (await rows.count()) === number + 1);
  await page.getByLabel("Find a request by ID").fill(id);
  await page.keyboard.press("Enter");
  const details = page.getByRole("complementary", { name: "Request details" });
  await details.getByText(id, { exact: true }).waitFor();
  assert.equal(await rows.count(), 1);
  await browser.picture(page, "gateway-request");
  await page.getByRole("button", { name: /^Remove the filter ID/ }).click();
  await page.getByLabel("Status").selectOption("rejected");
  await until("what was rejected", async () => (await rows.count()) === 1);
  await rows.first().getByRole("button").click();
  await details.getByText("mgw rejected the request.").waitFor();
  await page.getByRole("button", { name: /^Remove the filter Status/ }).click();
  await page.getByLabel("Status").selectOption("429");
  await until("what the provider rejected", async () => (await rows.count()) === 1);
  await rows.first().getByRole("button").click();
  await details.getByText("The provider rejected the request.").waitFor();
  assert.ok((await details.locator("blockquote").innerText()).length > 5, "the provider's own reason");
  await browser.picture(page, "gateway-reason");
}

const add = (values) => values.reduce((total, value) => total + Number(value.replace(/[$,]/g, "")), 0);

export default async function scenario(browser) {
  const first = await ask(browser.base, "fast");
  for (let number = 1; number < 20; number += 1) await ask(browser.base, number % 2 ? "fast" : "main/gpt-other", number % 3 === 0);
  await ask(browser.base, "nowhere/at-all");
  await ask(browser.base, "fast", false, true);
  await ask(browser.base, "main/gpt-x+sim-status-429");

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

  await past(browser, page, first, totals.requests + 1);
  await page.evaluate(() => { window.sameDocument = true; });
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
