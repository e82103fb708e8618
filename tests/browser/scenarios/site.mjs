/** The site of the documents: nothing is cut off, and what is copied can be pasted. */

import assert from "node:assert/strict";

const PAGES = JSON.parse(process.env.MGW_PAGES);
const SIZES = [[1440, 900], [1280, 800], [390, 844]];
const PHONE = 390;

/** What is wider than its place: code, and tables that scroll within a frame of their own. */
function cutOff() {
  const wide = (selector) => [...document.querySelectorAll(selector)].filter((element) => element.scrollWidth > element.clientWidth + 1);
  const words = (element) => `${element.scrollWidth} px in ${element.clientWidth}: ${element.innerText.slice(0, 60)}`;
  const { scrollWidth, clientWidth } = document.documentElement;
  return { page: scrollWidth - clientWidth, code: wide("article pre").map(words), tables: wide("article .table-wrapper").map(words) };
}

export default async function scenario(browser) {
  await nothingIsCutOff(browser);
  await copies(browser);
  await overview(browser);
  await index(browser);
}

async function nothingIsCutOff(browser) {
  for (const [width, height] of SIZES) {
    const page = await browser.open("", { path: PAGES[0], width, height });
    for (const path of PAGES) {
      await page.goto(`${browser.base}${path}`);
      const found = await page.evaluate(cutOff);
      const at = `${path} at ${width}`;
      assert.ok(found.page <= 0, `${at} can be moved sideways by ${found.page}`);
      assert.deepEqual(found.code, [], `code on ${at}`);
      if (width !== PHONE) assert.deepEqual(found.tables, [], `tables on ${at}`);
    }
    await page.context().close();
  }
}

/** Commands without prompts and output; a block of other text as it is. */
async function copies(browser) {
  const page = await browser.open("", { path: "/docs/tutorial.html", permissions: ["clipboard-read", "clipboard-write"] });
  const copied = async (block) => {
    await block.hover();
    await block.locator("button.copybtn").click();
    return page.evaluate(() => navigator.clipboard.readText());
  };
  const session = page.locator("div.highlight", { hasText: "$ mgw check" }).first();
  const shown = await session.locator("pre").innerText();
  const typed = await copied(session);
  assert.match(shown, /^the configuration is valid$/m);
  assert.doesNotMatch(typed, /^\$|the configuration is valid/m);
  assert.match(typed, /^mgw check mgw.yaml$/m);
  const long = page.locator("div.highlight", { hasText: "$ curl" }).first();
  assert.match(await copied(long), /^curl .*\\\n +-d '.*'$/, "a command goes on in the next line");
  const file = page.locator("div.highlight", { hasText: "providers:" }).first();
  assert.equal(await copied(file), (await file.locator("pre").innerText()).trimEnd());
}

/** The picture has few words in large letters where it is small. */
async function overview(browser) {
  for (const [width, shown, hidden] of [[400, ".phone", ".desktop"], [1000, ".desktop", ".phone"]]) {
    const page = await browser.open("", { path: "/_images/overview.svg", width });
    const display = (selector) => page.locator(selector).evaluate((element) => getComputedStyle(element).display);
    assert.notEqual(await display(shown), "none", `${shown} at ${width}`);
    assert.equal(await display(hidden), "none", `${hidden} at ${width}`);
    await page.context().close();
  }
}

async function index(browser) {
  for (const scheme of ["light", "dark"]) {
    const page = await browser.open("", { path: "/docs/index.html", scheme });
    await browser.picture(page, `site-index-${scheme}`);
    for (const image of await page.locator("article img").all()) assert.ok((await image.getAttribute("alt")).length > 40);
    await browser.audit(page, `the index, ${scheme}`);
  }
}
