import { syncBuiltinESMExports } from 'node:module';
import { installChance } from './chance.js';
import { installClocks } from './clocks.js';
import { installComputing } from './computing.js';
import { installExits } from './exits.js';
import { installIdentity } from './identity.js';
// First of all: what the host keeps has to be native.
import './natives.js';
import { installNet } from '../net/install.js';
import { installRefusals } from './refusals.js';
import { ofThread } from './thread.js';
import { installTimers } from './timers.js';

const dispatchers = ofThread('installed', () => ({ installed: false }));

/**
 * Puts dispatchers in the place of clocks, timers and randomness. They equal the natives unless a simulated process owns
 * the event that is being delivered. Comes before the first `import` or `require` of a library, which may take what it
 * finds. Once for a thread, but for what test runners take away between files.
 */
export function install(): void {
  installExits();
  if (dispatchers.installed) return;
  dispatchers.installed = true;
  installClocks();
  installTimers();
  installChance();
  installComputing();
  installIdentity();
  installRefusals();
  installNet();
  // `import { setTimeout } from 'node:timers'` is bound to these from now on.
  syncBuiltinESMExports();
}
