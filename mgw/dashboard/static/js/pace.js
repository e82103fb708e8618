/** When work is done: at most a few times a second, and only while somebody can see it. */

const IDLE_SHARE = 4;

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
 * Run `work` again and again until the signal is aborted: the pause begins when a run has ended, is doubled after each
 * failure up to half a minute, and a hidden tab waits until it is seen.
 * @param {() => Promise<void>} work
 * @param {() => number} seconds
 * @param {AbortSignal} signal
 * @returns {(delay?: number) => void} runs it sooner, after `delay` milliseconds; while it runs: once more after that
 */
export function poll(work, seconds, signal) {
  let running = false;
  let again = false;
  let failures = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let due = 0;

  async function run() {
    clearTimeout(timer);
    timer = undefined;
    if (signal.aborted || document.hidden) return;
    if (running) {
      again = true;
      return;
    }
    running = true;
    again = false;
    try {
      await work();
      failures = 0;
    } catch {
      failures += 1;
    }
    running = false;
    const pause = failures ? Math.min(30, 2 ** failures) : seconds();
    schedule(again ? 0 : pause * 1000);
  }

  /** @param {number} milliseconds */
  function schedule(milliseconds) {
    if (signal.aborted) return;
    clearTimeout(timer);
    due = performance.now() + milliseconds;
    timer = setTimeout(run, milliseconds);
  }

  document.addEventListener("visibilitychange", () => { if (!document.hidden) run(); }, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  run();
  return (delay = 0) => {
    if (running) again = true;
    else if (timer === undefined || performance.now() + delay < due) schedule(delay);
  };
}
