import { hasRealRedis, isRequired, ProvisionError, WAYS_TO_GET_REDIS } from './index.js';
import { findServerProgram } from './processes.js';

/**
 * Whether a suite on real nodes can run here; says loudly if it cannot.
 *
 * @param suite - Its name, for the message.
 * @param needs - `processes` for suites that kill and stop nodes, which given URLs do not allow.
 * @throws ProvisionError if it cannot although `LOCKSTEP_REQUIRE` names `redis`.
 */
export function canRunOnRedis(suite: string, needs: 'any' | 'processes' = 'any'): boolean {
  if (needs === 'any' ? hasRealRedis() : findServerProgram(process.env.PATH) !== undefined) return true;
  const ways = (needs === 'any' ? WAYS_TO_GET_REDIS : WAYS_TO_GET_REDIS.slice(1)).map((way) => `  - ${way}`).join('\n');
  const message = `${suite}: no real Redis to be found. To get one:\n${ways}`;
  if (isRequired('redis')) throw new ProvisionError(`LOCKSTEP_REQUIRE names redis, but ${message}`);
  console.warn(`SKIPPED ${message}`);
  return false;
}
