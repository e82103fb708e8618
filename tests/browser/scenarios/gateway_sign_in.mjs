/** Before a gateway: its keys, its cookie and its policy let the page work, and nobody else see anything. */

import assert from "node:assert/strict";
import { until } from "../browser.mjs";

export default async function scenario(browser) {
  const page = await browser.open("#/logs");
  await page.getByLabel("Key").fill("wrong");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").filter({ hasText: "does not give access" }).waitFor();
  await page.getByLabel("Key").fill(process.env.MGW_DASHBOARD_KEY);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Logs", level: 1 }).waitFor();
  const [cookie] = await page.context().cookies();
  assert.deepEqual([cookie.name, cookie.httpOnly, cookie.sameSite], ["mgw_dashboard", true, "Strict"]);
  assert.ok(!cookie.value.includes(process.env.MGW_DASHBOARD_KEY));

  await page.context().clearCookies();
  await page.reload();
  await page.getByLabel("Key").waitFor();

  // without scripts the form leads to the same place
  const plain = await browser.open("", { javaScriptEnabled: false });
  await plain.getByLabel("Key").fill(process.env.MGW_DASHBOARD_KEY);
  await plain.getByRole("button", { name: "Sign in" }).click();
  await until("the page", async () => (await plain.title()) === "Overview · mgw");
}
