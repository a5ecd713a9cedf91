import { Watchdog } from '../runtime/watchdog.js';

/** A tick is 100 ms. */
const STARTED = 20;
const STOPPED = STARTED + 7;
const DONE = STOPPED + 5;

/** Keeps its thread for less time than its watchdog allows, whatever time it is stopped for in between. */
const watchdog = new Watchdog(2_000);
watchdog.start('the client');
let ticks = 0;
const ticking = setInterval(() => {
  ticks++;
  if (ticks <= STARTED) watchdog.beat();
  if (ticks === STOPPED) process.stdout.write('keeps its thread');
  if (ticks < DONE) return;
  clearInterval(ticking);
  watchdog.stop();
}, 100);
