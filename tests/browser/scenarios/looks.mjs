/** Every view, in both schemes and from a phone to a wall: legible by axe-core's measure, and never too wide. */

import assert from "node:assert/strict";
import { event, history, profiles } from "../samples.mjs";
import { until } from "../browser.mjs";

const VIEWS = ["overview", "requests", "providers", "models", "sessions", "limits", "logs", "logins"];
const SIZES = [["phone", 360, 740], ["desk", 1280, 900], ["wall", 2560, 1440]];

export default async function scenario(browser) {
  await browser.stub("profiles", profiles());
  await browser.stub("events", history());
  for (const scheme of ["light", "dark"]) {
    for (const [size, width, height] of SIZES) {
      const page = await browser.open("", { width, height, scheme, reducedMotion: "reduce" });
      await until("charts", async () => (await page.locator(".uplot").count()) === 6);
      for (const view of VIEWS) {
        await page.evaluate((name) => { location.hash = `#/${name}`; }, view);
        await page.locator(`.view-${view}`).waitFor();
        if (view === "overview") await until("charts", async () => (await page.locator(".uplot").count()) === 6);
        if (view === "requests") await browser.stub("events", [event(`${scheme}-${size}`), event(`${scheme}-${size}-2`, { status: "upstream_error", http_status: 502 })]);
        if (view === "requests") await page.locator("button.row").nth(1).waitFor();
        if (view === "limits") await page.locator(".limit-bar").first().waitFor();
        const name = `${view}-${size}-${scheme}`;
        await browser.picture(page, name);
        const [content, room] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
        assert.ok(content <= room, `${name} is ${content} wide in ${room}`);
        if (size === "phone") await browser.audit(page, name);
      }
      await page.context().close();
    }
  }
  await browser.stub("set", { key: "right-key" });
  for (const scheme of ["light", "dark"]) {
    const page = await browser.open("", { width: 360, height: 640, scheme });
    await page.getByLabel("Key").waitFor();
    await browser.picture(page, `sign-in-${scheme}`);
    await browser.audit(page, `sign-in-${scheme}`);
  }
}
