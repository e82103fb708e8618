/** When work is done: at most a few times a second, and only while somebody can see it. */

const IDLE_SHARE = 4;
const REST_SHARE = 5;

/**
 * Wrap `work` so that any number of calls leads to one run, at the next frame that is far enough from the last: what
 * takes long, layout and painting included, is done more rarely, so that most of the time is left for the reader.
 * Frames stop in a hidden tab, so nothing is drawn there and nothing is piled up.
 * @param {() => void} work
 * @param {AbortSignal} signal
 * @param {number} [milliseconds] least distance of two runs
 * @returns {() => void}
 */
export function paced(work, signal, milliseconds = 250) {
  let waiting = false;
  let last = -Infinity;
  let pause = milliseconds;
  /** @param {number} now */
  function frame(now) {
    if (signal.aborted) return;
    if (now - last < pause) {
      setTimeout(() => requestAnimationFrame(frame), pause - (now - last));
      return;
    }
    waiting = false;
    last = now;
    work();
    setTimeout(() => { pause = Math.max(milliseconds, IDLE_SHARE * (performance.now() - now)); }); // after the painting
  }
  return () => {
    if (waiting || signal.aborted) return;
    waiting = true;
    requestAnimationFrame(frame);
  };
}

/**
 * Run `work` again and again until the signal is aborted: the pause begins when a run has ended, is several times as
 * long as the run was, is doubled after each failure up to half a minute, and a hidden tab waits until it is seen.
 * @param {() => Promise<void>} work
 * @param {() => number} seconds
 * @param {AbortSignal} signal
 * @returns {(delay?: number) => void} runs it sooner, after `delay` milliseconds, but not before the rest that a long
 *   run is owed; 0: at once, since somebody waits for it; while it runs: after that
 */
export function poll(work, seconds, signal) {
  let running = false;
  /** @type {number | undefined} what was asked for while it ran */
  let again;
  let failures = 0;
  let restUntil = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let due = 0;

  async function run() {
    clearTimeout(timer);
    timer = undefined;
    if (signal.aborted || document.hidden) return;
    if (running) {
      again = 0;
      return;
    }
    running = true;
    again = undefined;
    const begun = performance.now();
    try {
      await work();
      failures = 0;
    } catch {
      failures += 1;
    }
    running = false;
    const now = performance.now();
    restUntil = now + REST_SHARE * (now - begun);
    const pause = failures ? Math.min(30, 2 ** failures) : seconds();
    schedule(again === 0 ? 0 : rested(Math.min(again ?? Infinity, pause * 1000)));
  }

  /** @param {number} milliseconds @returns {number} the same, or what is left of the rest */
  function rested(milliseconds) {
    return Math.max(milliseconds, restUntil - performance.now());
  }

  /** @param {number} milliseconds */
  function schedule(milliseconds) {
    if (signal.aborted) return;
    clearTimeout(timer);
    due = performance.now() + milliseconds;
    timer = setTimeout(run, milliseconds);
  }

  document.addEventListener("visibilitychange", () => { if (!document.hidden) schedule(rested(0)); }, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  run();
  return (delay = 0) => {
    if (running) {
      again = Math.min(again ?? Infinity, delay);
      return;
    }
    const pause = delay === 0 ? 0 : rested(delay);
    if (timer === undefined || performance.now() + pause < due) schedule(pause);
  };
}
