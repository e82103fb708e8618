/** Before a gateway: the view sends requests as the client, stops them, and shows what belongs to them. */

import assert from "node:assert/strict";
import { until } from "../browser.mjs";

const { MGW_ACCESS: ACCESS, MGW_SIGN_IN_KEY: SIGN_IN_KEY, MGW_EDGE_KEY: EDGE_KEY } = process.env;
const SIZES = [360, 1280, 1440, 1920];

/** What a description list says of a name. */
async function fact(page, region, name) {
  const row = page.getByRole("region", { name: region, exact: true }).locator(".facts > div", { has: page.locator(`dt:text-is("${name}")`) });
  return (await row.count()) ? row.locator("dd").innerText() : undefined;
}

const response = (page, name) => fact(page, "Response", name);
const usage = (page, name) => fact(page, "Usage event", name);
const text = (page) => page.getByRole("region", { name: "Response: Text" }).innerText();
const state = (page) => page.getByRole("status").filter({ hasText: /^(Waiting for the gateway|Receiving|Complete|Stopped|Failed)$/ }).innerText();

async function send(page, model, api = "Chat Completions") {
  await page.getByLabel("Model", { exact: true }).fill(model);
  await page.getByRole("button", { name: api, exact: true }).click();
  await page.getByLabel("Prompt", { exact: true }).fill("Say hello.");
  await page.getByLabel("Prompt", { exact: true }).press("Control+Enter");
}

async function completed(page, what = "Complete") {
  await until(what, async () => (await state(page)) === what);
  await until("the event", async () => (await usage(page, "Status")) !== undefined);
}

async function signIn(browser, page) {
  if (!SIGN_IN_KEY) return;
  await page.getByLabel("Key").fill(SIGN_IN_KEY);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Try it", level: 1 }).waitFor();
}

/** A key that is entered is in no attribute and in no storage, and its field is empty once it is used. */
async function enterKey(browser, page) {
  assert.equal(await page.getByLabel("Gateway key").getAttribute("type"), "password");
  browser.expect(/^401 \/v1\/chat\/completions$/);
  await page.getByLabel("Gateway key").fill("edge-canary-wrong");
  await send(page, "fast");
  await until("the refusal", async () => (await state(page)) === "Failed");
  const told = await page.getByRole("alert").filter({ hasText: "401" }).innerText();
  assert.match(told, /is not a gateway key/);
  assert.match(told, /Enter a gateway key that is configured/);
  await page.getByLabel("Gateway key").fill(EDGE_KEY);
}

async function keyIsNowhere(page) {
  const seen = await page.evaluate(() => [document.documentElement.outerHTML, JSON.stringify({ ...localStorage, ...sessionStorage }), document.cookie, document.querySelector("#try-key")?.value ?? ""].join("\n"));
  assert.ok(!seen.includes(EDGE_KEY));
}

export default async function scenario(browser) {
  const page = await browser.open("#/try", { height: 1000 });
  await signIn(browser, page);
  await page.getByRole("link", { name: "Try it" }).waitFor();
  if (ACCESS === "key") await enterKey(browser, page);
  else assert.equal(await page.getByLabel("Gateway key").isVisible(), false);

  const [sent] = await Promise.all([page.waitForRequest(/chat\/completions/), send(page, "fast")]);
  const headers = await sent.allHeaders();
  assert.equal(headers.authorization, ACCESS === "key" ? `Bearer ${EDGE_KEY}` : undefined);
  assert.equal(/mgw_try_it=/.test(headers.cookie ?? ""), ACCESS === "client");
  await completed(page);
  assert.ok((await text(page)).length > 3);
  assert.equal(await response(page, "Status"), "200");
  assert.equal(await usage(page, "Client"), ACCESS === "anyone" ? undefined : "alice");
  assert.equal(await usage(page, "Provider"), "main");
  assert.match(await usage(page, "Cost"), /^\$0\.\d+/);
  assert.match(await usage(page, "Output tokens"), /^\d+$/);
  assert.match(await response(page, "Time to first byte"), /ms|s$/);
  assert.match(await response(page, "Request ID"), /^req_[0-9a-f]{24}$/);
  await page.getByRole("button", { name: "Raw", exact: true }).click();
  assert.match(await page.getByRole("region", { name: "Response: Raw" }).innerText(), /^data: \{[^]*data: \[DONE\]/);
  await page.getByRole("button", { name: "Text", exact: true }).click();
  const curl = await page.getByRole("region", { name: "Request: curl" }).innerText();
  assert.ok(curl.startsWith(`curl -N '${browser.base}/v1/chat/completions'`));
  assert.equal(curl.includes('"Authorization: Bearer $GATEWAY_KEY"'), ACCESS !== "anyone");
  await keyIsNowhere(page);

  // every other API, across families, and a field that the translation drops
  await page.getByLabel("Max. output tokens").fill("9000000");
  for (const [api, model] of [["Messages", "fast"], ["Gemini", "claude/claude-sonnet-4-5"], ["Chat Completions", "smart"]]) {
    const before = await response(page, "Request ID");
    await send(page, model, api);
    await until("another request", async () => ![before, ""].includes(await response(page, "Request ID")) && (await state(page)) === "Complete");
    await completed(page);
    assert.ok((await text(page)).length > 3, api);
  }
  assert.match(await response(page, "Dropped fields"), /max_/);
  assert.match(await usage(page, "Dropped fields"), /max_/);
  await page.getByLabel("Max. output tokens").fill("");

  // whole, and an error of the provider
  await page.getByLabel("Stream the response").uncheck();
  await send(page, "fast", "Responses");
  await completed(page);
  assert.match(await page.locator('[aria-label="Response: Raw"]').textContent(), /"object": "response"/);
  browser.expect(/^(503|404) \/v1\//);
  await send(page, "main/sim-status-503");
  await completed(page, "Failed");
  assert.match(await page.getByRole("alert").filter({ hasText: "503" }).innerText(), /overloaded|again/);
  assert.equal(await usage(page, "Error"), "upstream_5xx");
  await browser.picture(page, `try-${ACCESS}-failed`);

  // stopped by hand, while it streams
  await page.getByLabel("Stream the response").check();
  await send(page, "main/sim-chunk-delay-200+sim-chunks-500");
  await until("the first words", async () => (await text(page)).length > 3);
  await page.getByRole("button", { name: "Stop" }).click();
  await completed(page, "Stopped");
  assert.equal(await usage(page, "Error"), "client_abort");
  await page.getByRole("button", { name: "Send" }).waitFor();

  const id = await response(page, "Request ID");
  assert.equal(await page.getByRole("link", { name: "Open in Requests" }).getAttribute("href"), `#/requests?id=${id}`);
  await page.getByRole("link", { name: "Models" }).click();
  await page.getByRole("heading", { name: "Models", level: 1 }).waitFor();
  await page.getByRole("link", { name: "Try it" }).click();
  assert.equal(await page.getByLabel("Prompt", { exact: true }).inputValue(), "Say hello.");
  assert.match(await page.getByLabel("Model", { exact: true }).inputValue(), /sim-chunk-delay/);
  await page.getByLabel("Model", { exact: true }).fill("fast");
  await page.getByRole("button", { name: "Send" }).click(); // a key that was entered is still known
  await completed(page, "Complete");
  await keyIsNowhere(page);
  if (ACCESS === "client") await anotherKey(page);
  await looks(browser, page);
}

/** Who has signed in may send as somebody else. */
async function anotherKey(page) {
  await page.getByRole("button", { name: "Another key" }).click();
  await page.getByLabel("Gateway key").fill(EDGE_KEY);
  const [sent] = await Promise.all([page.waitForRequest(/chat\/completions/), send(page, "smart")]);
  const headers = await sent.allHeaders();
  assert.deepEqual([headers.authorization, headers.cookie], [`Bearer ${EDGE_KEY}`, undefined]);
  await completed(page);
  await page.getByRole("button", { name: "alice", exact: true }).click();
}

async function looks(browser, page) {
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    for (const width of SIZES) {
      await page.setViewportSize({ width, height: 1000 });
      const tooWide = await page.evaluate(() => [document.documentElement, ...document.querySelectorAll("main *")]
        .filter((element) => element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).display !== "inline" && !element.matches(".unseen, input, svg, svg *, datalist *"))
        .map((element) => `${element.tagName} ${element.className}`));
      assert.deepEqual(tooWide, [], `${scheme} at ${width}`);
      await browser.picture(page, `try-${ACCESS}-${scheme}-${width}`);
    }
    await browser.audit(page, `try it, ${scheme}`);
  }
}
