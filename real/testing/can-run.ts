import { isRequired, WAYS_TO_GET_REDIS } from '../provisioner/index.js';
import { findServerProgram } from '../provisioner/processes.js';

/** What tests need of a machine, as `LOCKSTEP_REQUIRE` names it. */
export type Need =
  | 'redis'
  | 'docker'
  | 'faketime'
  | 'browser'
  | 'firefox'
  | 'spin'
  | 'zsh'
  | 'fish'
  | 'systemd'
  | 'chrony'
  | 'compilers';

/**
 * Whether a suite can run on this machine; says loudly if it cannot.
 *
 * @param suite - Its name, for the message.
 * @param lacking - What is not here, and how to get it; `undefined` if nothing is lacking.
 * @throws Error if it cannot although `LOCKSTEP_REQUIRE` names what it needs.
 */
export function canRun(suite: string, need: Need, lacking: string | undefined): boolean {
  if (lacking === undefined) return true;
  const message = `${suite}: ${lacking}`;
  if (isRequired(need)) throw new Error(`LOCKSTEP_REQUIRE names ${need}, but ${message}`);
  console.warn(`SKIPPED ${message}`);
  return false;
}

/**
 * The same for a suite on real nodes.
 *
 * @param nodes - `processes` for suites that kill and stop nodes, which given URLs do not allow.
 */
export function canRunOnRedis(suite: string, nodes: 'any' | 'processes' = 'any'): boolean {
  const { PATH, LOCKSTEP_REDIS } = process.env;
  const isHere = findServerProgram(PATH) !== undefined || (nodes === 'any' && Boolean(LOCKSTEP_REDIS));
  const ways = nodes === 'any' ? WAYS_TO_GET_REDIS : WAYS_TO_GET_REDIS.slice(1);
  const lacking = `no real Redis to be found. To get one:\n${ways.map((way) => `  - ${way}`).join('\n')}`;
  return canRun(suite, 'redis', isHere ? undefined : lacking);
}
