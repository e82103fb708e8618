/** Realtime sessions: those that are open, and those that were closed since the page was opened. */

import { h, setText } from "../dom.js";
import { heading, panel } from "../controls.js";
import { clientName } from "../names.js";
import { UNKNOWN, bytes, count, seconds, time, whole } from "../format.js";
import { poll } from "../pace.js";
import { Ring } from "../ring.js";
import { Table } from "../table.js";

/** @type {import("../table.js").Column[]} */
const COLUMNS = [
  { key: "time", label: "Opened", sort: (row) => row.time, cell: (row) => time(row.time) },
  { key: "seconds", label: "Duration", numeric: true, sort: (row) => row.seconds, cell: (row) => seconds(row.seconds) },
  { key: "client", label: "Client", sort: (row) => row.client, cell: (row) => (row.client === undefined ? UNKNOWN : h("span", { title: clientName(row.client).title }, clientName(row.client).label)) },
  { key: "model", label: "Model", wide: true, sort: (row) => row.model, cell: (row) => row.model ?? UNKNOWN },
  { key: "provider", label: "Provider", sort: (row) => row.provider, cell: (row) => row.provider ?? UNKNOWN },
  { key: "route", label: "Route", priority: 1, cell: (row) => row.route ?? UNKNOWN },
  { key: "bytes_in", label: "From client", numeric: true, sort: (row) => row.bytes_in, cell: (row) => bytes(row.bytes_in) },
  { key: "bytes_out", label: "To client", numeric: true, sort: (row) => row.bytes_out, cell: (row) => bytes(row.bytes_out) },
  { key: "frames", label: "Frames in, out", numeric: true, priority: 2, cell: (row) => (row.frames_in === undefined && row.frames_out === undefined ? UNKNOWN : `${count(row.frames_in)}, ${count(row.frames_out)}`) },
];

/**
 * @param {HTMLElement} root
 * @param {import("../main.js").App} app
 * @param {AbortSignal} signal
 */
export function show(root, app, signal) {
  const note = h("span", { class: "note" });
  const open = new Table({ caption: "Open sessions", columns: COLUMNS, rowKey: (row) => row.request_id, sorted: { key: "time", down: true }, empty: "No open sessions. Realtime sessions over WebSocket appear here while they are open." });
  const closed = new Table({ caption: "Closed sessions", columns: COLUMNS, rowKey: (row) => row.request_id, empty: "No sessions have closed since you opened this view" });
  root.append(heading("Sessions"), panel("Open", [note], open.element), panel("Recently closed", [], closed.element));
  closed.setRows([]);

  const refresh = poll(async () => {
    const answer = await app.api.get("sessions", {}, signal);
    open.setRows(answer.sessions);
    setText(note, `${whole(answer.sessions.length)} of ${whole(answer.max_sessions)}`);
  }, () => 2, signal);
  /** @type {Ring<any>} */
  const ended = new Ring(50);
  app.feed.on("session", (event) => {
    if (event.state === "closed") {
      ended.push(event);
      closed.setRows(ended.newestFirst());
    }
    refresh(200);
  }, signal);
}
