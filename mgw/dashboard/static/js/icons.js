/** The icons: strokes on a grid of 24, drawn in the colour of the text beside them. */

/** @type {Record<string, string>} */
const PATHS = {
  overview: "M4 19V9m5 10V5m5 14v-8m5 8V7",
  requests: "M4 7h12m0 0-4-3.5M16 7l-4 3.5M20 17H8m0 0 4-3.5M8 17l4 3.5",
  providers: "M5 4h14v6H5zM5 14h14v6H5zM8.5 7h.01M8.5 17h.01",
  models: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9",
  sessions: "M12 4v16M8 8v8M16 8v8M4 11v2M20 11v2",
  limits: "M4 17a8 8 0 1116 0M12 17l4-5.5M4 20h16",
  logs: "M5 5h14M5 10h9M5 15h14M5 20h7",
  logins: "M14 4h5v16h-5M4 12h10m0 0-4-4m4 4-4 4",
  try: "M4 5l16 7-16 7 3-7zM7 12h6",
  ok: "M5 12.5l4.5 4.5L19 7.5",
  upstream_error: "M12 4l9 16H3zM12 10v4.5M12 17.2h.01",
  client_abort: "M6 6l12 12M18 6L6 18",
  rejected: "M12 3a9 9 0 100 18 9 9 0 000-18zM5.8 5.8l12.4 12.4",
  in_progress: "M12 3.5a8.5 8.5 0 100 17 8.5 8.5 0 000-17zM12 7.5V12l3 2",
  unknown: "M6 12h12",
  light: "M12 8a4 4 0 100 8 4 4 0 000-8zM12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M5.3 18.7l1.4-1.4M17.3 6.7l1.4-1.4",
  dark: "M20 14.5A8.5 8.5 0 019.5 4a8.5 8.5 0 1010.5 10.5z",
  system: "M3.5 5h17v11h-17zM9 20h6M12 16v4",
  pause: "M8.5 5v14M15.5 5v14",
  resume: "M7 4.5v15l12-7.5z",
  close: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  open: "M14 4h6v6M20 4l-9 9M18 14v6H4V6h6",
  table: "M4 5h16v14H4zM4 10h16M10 10v9",
  chart: "M4 19l5-7 4 4 7-10",
  link: "M10 14a4 4 0 006 0l3-3a4 4 0 00-6-6l-1 1M14 10a4 4 0 00-6 0l-3 3a4 4 0 006 6l1-1",
  key: "M8 8.5a4 4 0 100 8 4 4 0 000-8zM12 12.5h9M18 12.5v3.5",
};

/**
 * @param {string} name
 * @returns {SVGSVGElement} hidden from screen readers: a word always stands beside it
 */
export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", PATHS[name] ?? PATHS.unknown);
  svg.append(path);
  return svg;
}
