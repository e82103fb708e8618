/** A chart with its title, a legend that tells the values under the cursor, and a table of the same numbers. */

import { h, fill, setText } from "./dom.js";
import { UNKNOWN } from "./format.js";
import { icon } from "./icons.js";
import { makePlot, plotData, stepAt, token } from "./plot.js";
import { watchColours } from "./theme.js";

/** @typedef {import("./chart_data.js").Line} Line */
/**
 * @typedef {object} Content
 * @property {number[]} times
 * @property {number} step
 * @property {Line[]} lines
 * @property {boolean} stacked
 * @property {boolean} unfinished whether the last step is in progress
 * @property {(value: number) => string} format
 * @property {boolean} isCount
 * @property {(values: (number | null)[]) => number | null} [total] what the legend tells when no point is pointed at
 * @property {(unix: number) => string} moment
 * @property {string} note beside the title, as "per minute"
 */

let charts = 0;

export class Chart {
  /**
   * @param {string} title
   * @param {AbortSignal} signal
   * @param {(since: number, until: number) => void} onSelect
   */
  constructor(title, signal, onSelect) {
    this.title = title;
    this.onSelect = onSelect;
    /** @type {Content | undefined} */
    this.content = undefined;
    /** @type {any} */
    this.plot = undefined;
    this.shape = "";
    this.asTable = false;
    const id = `chart-${(charts += 1)}`;
    this.note = h("span", { class: "note" });
    this.host = h("div", { class: "plot", role: "img" });
    this.table = h("div", { class: "scroll plot-table", tabindex: "0", role: "region", "aria-label": `${title}, as a table`, hidden: true });
    this.legend = h("ul", { class: "legend" });
    this.toggle = h("button", { class: "quiet small", type: "button", "aria-pressed": "false", "aria-label": `${title} as a table`, title: "Switch between chart and table", on: { click: () => this.flip() } }, icon("table"));
    this.empty = h("p", { class: "plot-empty", hidden: true }, "No data in this period");
    this.element = h(
      "section", { class: "panel chart", "aria-labelledby": id },
      h("div", { class: "panel-head" }, h("h2", { id }, title), this.note, this.toggle),
      this.legend, this.host, this.empty, this.table,
    );
    const sizes = new ResizeObserver(() => this.resize());
    sizes.observe(this.element);
    watchColours(() => { this.shape = ""; this.draw(); }, signal);
    signal.addEventListener("abort", () => { sizes.disconnect(); this.plot?.destroy(); }, { once: true });
  }

  /** @param {Content} content */
  show(content) {
    this.content = content;
    setText(this.note, content.note);
    this.draw();
  }

  draw() {
    const content = this.content;
    if (!content) return;
    const isEmpty = !content.lines.some(({ values }) => values.some((value) => (content.stacked ? value : value !== null)));
    this.empty.hidden = !isEmpty;
    this.host.hidden = isEmpty || this.asTable;
    this.table.hidden = isEmpty || !this.asTable;
    this.toggle.hidden = isEmpty;
    this.host.setAttribute("aria-label", this.summary(content));
    this.drawLegend(content);
    if (this.asTable && !isEmpty) this.drawTable(content);
    else if (!isEmpty) this.drawPlot(content);
  }

  /** @param {Content} content */
  drawPlot(content) {
    const { times, lines, stacked, step, unfinished } = content;
    const shape = JSON.stringify([lines.map(({ key, colour }) => [key, colour]), stacked, step, unfinished]);
    if (this.plot && shape === this.shape) {
      this.plot.setData(plotData(times, lines, stacked, unfinished));
      this.resize();
      return;
    }
    this.plot?.destroy();
    this.shape = shape;
    this.plot = makePlot(this.host, times, lines, {
      width: this.width(), height: this.height(), stacked, step, unfinished, isCount: content.isCount,
      format: (value) => /** @type {Content} */ (this.content).format(value),
      onCursor: (index) => this.drawValues(index),
      onSelect: this.onSelect,
    });
  }

  /** @returns {number} */
  width() {
    return Math.max(200, Math.floor(this.element.clientWidth - 24));
  }

  /** @returns {number} */
  height() {
    return Number(token("--plot-height")) || 190;
  }

  resize() {
    if (this.plot && !this.host.hidden && this.plot.width !== this.width()) this.plot.setSize({ width: this.width(), height: this.height() });
  }

  /** @param {Content} content */
  drawLegend(content) {
    const shape = JSON.stringify(content.lines.map(({ key, label, colour, dash }) => [key, label, colour, dash]));
    if (this.legend.dataset.shape !== shape) {
      this.legend.dataset.shape = shape;
      fill(this.legend, content.lines.map((line) => {
        const swatch = h("span", { class: `swatch${line.dash ? " dashed" : ""}` });
        swatch.style.setProperty("--colour", `var(${line.colour})`);
        return h("li", {}, swatch, h("span", { class: "name", dir: "auto", title: line.label }, line.label), h("span", { class: "number" }));
      }));
    }
    this.drawValues(this.plot ? stepAt(this.plot, content.step) : null);
  }

  /** @param {number | null} index of the point under the cursor */
  drawValues(index) {
    const content = this.content;
    if (!content) return;
    const at = index === null || this.host.hidden ? undefined : content.times[index];
    setText(this.note, at === undefined ? content.note : this.momentOf(content, /** @type {number} */ (index)));
    content.lines.forEach((line, place) => {
      const value = at === undefined ? content.total?.(line.values) : line.values[/** @type {number} */ (index)];
      const element = this.legend.children[place]?.querySelector(".number");
      if (element) setText(element, value === undefined ? "" : value === null ? UNKNOWN : content.format(value));
    });
  }

  /** @param {Content} content @param {number} index @returns {string} of a step, which may be in progress */
  momentOf({ times, moment, unfinished }, index) {
    return `${moment(times[index])}${unfinished && index === times.length - 1 ? ", so far" : ""}`;
  }

  /** @param {Content} content */
  drawTable(content) {
    const { times, lines, format } = content;
    const { scrollTop } = this.table;
    const rows = times.map((time, index) => h(
      "tr", { role: "row" }, h("th", { scope: "row", role: "rowheader" }, h("time", { datetime: new Date(time * 1000).toISOString(), title: new Date(time * 1000).toISOString() }, this.momentOf(content, index))),
      lines.map(({ label, values }) => h("td", { class: "numeric", role: "cell", "data-label": label }, values[index] === null ? UNKNOWN : format(/** @type {number} */ (values[index])))),
    )).reverse();
    fill(this.table, h(
      "table", { role: "table" }, h("caption", { class: "unseen" }, this.title),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, h("th", { scope: "col", role: "columnheader" }, "Time"), lines.map(({ label }) => h("th", { scope: "col", role: "columnheader", class: "numeric" }, label)))),
      h("tbody", { role: "rowgroup" }, rows),
    ));
    // as many columns as there are groups: where they have no room, each moment is a card
    this.table.classList.remove("as-cards");
    this.table.classList.toggle("as-cards", this.table.scrollWidth > this.table.clientWidth);
    this.table.scrollTop = scrollTop;
  }

  /** @param {Content} content @returns {string} */
  summary({ lines, format, times, note }) {
    const parts = lines.map(({ label, values }) => {
      const known = /** @type {number[]} */ (values.filter((value) => value !== null));
      if (!known.length) return `${label}: none`;
      return `${label}: from ${format(Math.min(...known))} to ${format(Math.max(...known))}`;
    });
    return `${this.title}, ${note}, ${times.length} points. ${parts.join("; ")}. The button next to the title shows a table.`;
  }

  flip() {
    this.asTable = !this.asTable;
    this.toggle.setAttribute("aria-pressed", String(this.asTable));
    fill(this.toggle, icon(this.asTable ? "chart" : "table"));
    this.draw();
  }
}
