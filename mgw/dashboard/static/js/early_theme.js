// Runs before the first paint, so that a chosen colour scheme does not flash: theme.js says the rest.
try {
  const chosen = localStorage.getItem("mgw.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // without storage the system's scheme it is
}
