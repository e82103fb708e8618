/** Logs: the lines of the process, newest first, as they are written. */

import { sentence } from "../api.js";
import { h, setText } from "../dom.js";
import { heading, panel, pauseButton, searchBox, segments } from "../controls.js";
import { time } from "../format.js";
import { paced } from "../pace.js";
import { Ring } from "../ring.js";
import { Table } from "../table.js";

const LEVELS = ["debug", "info", "warn", "error", "critical"];
const KEPT = 1000;

/** @type {import("../table.js").Column[]} */
const COLUMNS = [
  { key: "time", label: "Time", cell: (row) => time(row.time) },
  { key: "level", label: "Level", cell: (row) => h("span", { class: `level level-${LEVELS.includes(row.level) ? row.level : "info"}` }, row.level) },
  { key: "text", label: "Message", wide: true, cell: (row) => h("code", { class: "line" }, row.text) },
];

/**
 * @param {HTMLElement} root
 * @param {import("../main.js").App} app
 * @param {AbortSignal} signal
 */
export function show(root, app, signal) {
  /** @type {Ring<any>} */
  const lines = new Ring(KEPT);
  let least = "debug";
  let words = "";
  /** @type {any[] | undefined} */
  let held;
  let heldAt = 0;
  const table = new Table({ caption: "Log, newest first", columns: COLUMNS, rowKey: (row) => String(row.number), empty: "" });
  const levels = segments("Minimum level", LEVELS.slice(0, 4).map((level) => [level, level === "debug" ? "All" : `${level[0].toUpperCase()}${level.slice(1)}+`]), (level) => {
    least = level;
    levels.mark(level);
    draw();
  });
  const search = searchBox("Search the log", "Text…", (value) => { words = value; draw(); });
  const pause = pauseButton((paused) => {
    held = paused ? lines.newestFirst() : undefined;
    heldAt = lines.added;
    draw();
  });
  const note = h("span", { class: "note" });
  const shown = panel("Process log", [note, h("div", { class: "filters" }, levels.element, search, pause.element)], table.element);
  shown.classList.add("log");
  root.append(heading("Logs"), shown);
  levels.mark(least);

  function draw() {
    const all = held ?? lines.newestFirst();
    const rows = all.filter(({ level, text }) => LEVELS.indexOf(level) >= LEVELS.indexOf(least) && (!words || text.toLowerCase().includes(words)));
    table.setEmpty(all.length ? "No lines match the filter" : "No log lines yet");
    table.setRows(rows);
    pause.show(held !== undefined, lines.added - heldAt);
    setText(note, `${rows.length === all.length ? "" : `${rows.length} of `}${all.length} ${all.length === 1 ? "line" : "lines"}`);
  }
  const drawSoon = paced(draw, signal);

  /** @param {any} line */
  const add = (line) => lines.push({ ...line, number: lines.added });

  /** What came from the feed before the answer is in the answer as well, or is newer than its last line. */
  async function load() {
    const early = lines.newestFirst().reverse();
    lines.clear();
    const answer = await app.api.get("logs", { lines: 500 }, signal);
    const last = answer.lines.at(-1)?.time ?? "";
    const later = [...early, ...lines.newestFirst().reverse()].filter((line) => line.time > last);
    lines.clear();
    for (const line of [...answer.lines, ...later]) add(line);
    drawSoon();
  }
  app.feed.on("log", (line) => { add(line); drawSoon(); }, signal);
  app.feed.on("reset", () => load().catch(() => undefined), signal);
  load().catch((error) => { if (!signal.aborted) table.setEmpty(sentence(error.message)); });
  draw();
}
