/** Before the demonstration's configuration: the view works as it opens, with every API and both aliases. */

import assert from "node:assert/strict";
import { until } from "../browser.mjs";

export default async function scenario(browser) {
  const page = await browser.open("#/overview", { width: 360, height: 740 });
  await page.getByRole("link", { name: "Try it" }).click();
  await page.getByRole("heading", { name: "Try it", level: 1 }).waitFor();
  const response = page.getByRole("region", { name: "Response", exact: true });
  const event = page.getByRole("region", { name: "Usage event", exact: true });
  let before = "";
  const sent = async () => {
    await page.getByRole("button", { name: "Send" }).click();
    await until("a response", async () => {
      const id = await response.locator("code").innerText();
      return id !== before && (await event.innerText()).includes("Output tokens") && (before = id) !== "";
    });
    assert.match(await page.getByRole("region", { name: "Response: Text" }).innerText(), /Say hello in one sentence/);
  };
  assert.equal(await page.getByLabel("Model", { exact: true }).inputValue(), "fast");
  for (const model of ["fast", "smart"]) {
    await page.getByLabel("Model", { exact: true }).fill(model);
    for (const api of ["Chat Completions", "Responses", "Messages", "Gemini"]) {
      await page.getByRole("button", { name: api, exact: true }).click();
      await sent();
    }
  }
  await page.getByLabel("Stream the response").uncheck();
  await sent();
  await page.getByLabel("System instruction").fill("Be brief.");
  await sent();
  assert.match(await page.getByRole("region", { name: "Request: curl" }).innerText(), /Be brief/);
}
