/** The sign-in page: send the key or token without leaving the page, so that a wrong one is told beside the field. */

const form = /** @type {HTMLFormElement} */ (document.getElementById("form"));
const key = /** @type {HTMLInputElement} */ (document.getElementById("key"));
const problem = /** @type {HTMLElement} */ (document.getElementById("problem"));
const button = /** @type {HTMLButtonElement} */ (form.querySelector("button"));

/** @param {string} text */
function refuse(text) {
  problem.textContent = text;
  key.setAttribute("aria-invalid", String(text !== ""));
  if (text) key.select();
}

/** @param {Response} response @returns {Promise<string>} */
async function reason(response) {
  const body = await response.json().catch(() => undefined);
  const isToken = body?.error?.code === "invalid_token"; // which says what is wrong with it
  if (response.status === 401 && !isToken) return "This key or token does not give access to the dashboard.";
  const message = body?.error?.message ?? `The gateway returned status ${response.status}`;
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  button.disabled = true;
  refuse("");
  try {
    const headers = { "Content-Type": "application/json" };
    const body = JSON.stringify({ key: key.value.trim() });
    const response = await fetch(form.action, { method: "POST", headers, body });
    if (response.ok) location.reload(); // the same address, now with the cookie: its #view is kept
    else refuse(await reason(response));
  } catch {
    refuse("The gateway cannot be reached.");
  } finally {
    button.disabled = false;
  }
});

key.focus();
