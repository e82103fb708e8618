/** The form of the page that sends a request. The key that is entered is kept here alone, and only in memory. */

import { h, fill, setText } from "../dom.js";
import { segments } from "../controls.js";
import { icon } from "../icons.js";
import { DIALECTS, takesNewLimit } from "./dialects.js";

const MOST_SUGGESTIONS = 1000;

/** What was entered, for as long as the page is open: whoever looks at another view finds it again. */
const entered = { model: "", dialect: "chat", stream: true, system: "", prompt: "Say hello in one sentence.", maxTokens: "", ownKey: false };
/** The gateway key that was entered: a variable, never storage, and not in the document once it is used. */
let key = "";

export class Form {
  /**
   * @param {any} profiles the answer of `profiles`
   * @param {() => void} send
   * @param {() => void} stop
   * @param {() => void} changed
   */
  constructor(profiles, send, stop, changed) {
    this.profiles = profiles;
    this.changed = changed;
    this.model = h("input", { id: "try-model", list: "try-models", autocomplete: "off", spellcheck: "false", required: true, placeholder: "Alias or provider/model" });
    this.model.value = entered.model || firstModel(profiles);
    this.models = h("datalist", { id: "try-models" });
    this.dialect = segments("API", Object.entries(DIALECTS).map(([value, { name }]) => [value, name]), (value) => { entered.dialect = value; this.dialect.mark(value); this.keep(); });
    this.dialect.mark(entered.dialect);
    this.stream = h("input", { type: "checkbox" });
    this.stream.checked = entered.stream;
    this.system = h("textarea", { id: "try-system", rows: "2", placeholder: "None" });
    this.system.value = entered.system;
    this.prompt = h("textarea", { id: "try-prompt", rows: "6", required: true });
    this.prompt.value = entered.prompt;
    this.maxTokens = h("input", { id: "try-max-tokens", type: "number", min: "1", step: "1", placeholder: "Default", inputmode: "numeric" });
    this.maxTokens.value = entered.maxTokens;
    this.key = h("input", { id: "try-key", type: "password", autocomplete: "off", spellcheck: "false" });
    this.who = h("div", { class: "try-who" });
    this.sendButton = h("button", { type: "submit", class: "primary", title: "Ctrl+Enter" }, "Send");
    this.stopButton = h("button", { type: "button", hidden: true, on: { click: stop } }, icon("close"), "Stop");
    const hint = h("span", { class: "hint" }, "Ctrl+Enter sends");
    this.element = h("form", { class: "try-form", autocomplete: "off" },
      labelled("Model", this.model, this.models),
      h("div", { class: "field" }, h("span", { class: "label", "aria-hidden": "true" }, "API"), this.dialect.element),
      this.who,
      labelled("System instruction", this.system),
      labelled("Prompt", this.prompt),
      h("div", { class: "try-options" }, labelled("Max. output tokens", this.maxTokens), h("label", { class: "check" }, this.stream, "Stream the response")),
      h("div", { class: "row-of-buttons" }, this.sendButton, this.stopButton, hint));
    this.element.addEventListener("submit", (/** @type {Event} */ event) => { event.preventDefault(); send(); });
    this.element.addEventListener("input", () => this.keep());
    this.element.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        if (!this.sendButton.hidden) this.element.requestSubmit();
      }
    });
    this.update(profiles);
  }

  /** Take over what the gateway says now. @param {any} profiles */
  update(profiles) {
    const names = [...profiles.aliases.map((/** @type {any} */ { name }) => name), ...profiles.models.map((/** @type {any} */ { id }) => id)];
    const text = [...new Set(names)].slice(0, MOST_SUGGESTIONS);
    if (text.length !== this.models.childElementCount) fill(this.models, text.map((value) => h("option", { value })));
    const before = this.profiles.try_it;
    this.profiles = profiles;
    if (!this.who.childElementCount || JSON.stringify(before) !== JSON.stringify(profiles.try_it)) this.drawWho();
  }

  drawWho() {
    const { as, client } = this.profiles.try_it;
    const field = h("label", { class: "field", for: "try-key" }, h("span", { class: "label" }, "Gateway key or token"), this.key);
    const note = h("span", { class: "hint" });
    const showKey = () => {
      this.key.placeholder = key ? "Entered; enter another to replace it" : "Required";
      this.key.required = this.usesOwnKey && !key;
      field.hidden = !this.usesOwnKey;
      setText(note, this.usesOwnKey ? "Kept in the memory of this page until you reload it." : "");
    };
    this.showKey = showKey;
    if (as === "anyone") {
      fill(this.who, h("p", { class: "hint" }, "Edge auth is off, so no gateway key is needed."));
    } else if (as === "key") {
      fill(this.who, field, note);
    } else {
      const choice = segments("Send as", [["client", client], ["key", "Another key"]], (value) => { entered.ownKey = value === "key"; choice.mark(value); showKey(); this.keep(); });
      choice.mark(entered.ownKey ? "key" : "client");
      fill(this.who, h("div", { class: "field" }, h("span", { class: "label", "aria-hidden": "true" }, "Send as"), choice.element), field, note);
    }
    showKey();
  }

  /** @returns {boolean} whether the key is one that was entered */
  get usesOwnKey() {
    const { as } = this.profiles.try_it;
    return as === "key" || (as === "client" && entered.ownKey);
  }

  keep() {
    Object.assign(entered, { model: this.model.value, stream: this.stream.checked, system: this.system.value, prompt: this.prompt.value, maxTokens: this.maxTokens.value });
    this.changed();
  }

  /** Take the key out of its field. @returns {string} the key to send, or nothing */
  takeKey() {
    if (!this.usesOwnKey) return "";
    if (this.key.value) key = this.key.value.trim();
    this.key.value = "";
    this.showKey?.();
    return key;
  }

  /** @returns {{ dialect: import("./dialects.js").Dialect, prompt: import("./dialects.js").Prompt }} */
  request() {
    const model = this.model.value.trim();
    const limit = Number(this.maxTokens.value);
    const prompt = {
      model, system: this.system.value, prompt: this.prompt.value, stream: this.stream.checked,
      maxTokens: Number.isInteger(limit) && limit > 0 ? limit : undefined, newLimit: takesNewLimit(this.profiles, model),
    };
    return { dialect: DIALECTS[entered.dialect], prompt };
  }

  /** @param {boolean} running */
  setRunning(running) {
    const focused = document.activeElement;
    this.sendButton.hidden = running;
    this.stopButton.hidden = !running;
    if (running && focused === this.sendButton) this.stopButton.focus();
    if (!running && focused === this.stopButton) this.sendButton.focus();
  }
}

/** @param {any} profiles @returns {string} */
function firstModel(profiles) {
  return profiles.aliases[0]?.name ?? profiles.models[0]?.id ?? "";
}

/** @param {string} words @param {HTMLElement} control @param {...Node} more @returns {HTMLElement} */
function labelled(words, control, ...more) {
  return h("label", { class: "field", for: control.id }, h("span", { class: "label" }, words), control, more);
}
