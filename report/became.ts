import { formatDurationMs } from '../scenarios/index.js';
import type { Scene } from './picture/scene.js';
import { reasonWords } from './rows.js';
import { propertyLabel } from './words.js';

/** What became of the first violation of a run when the same schedule was run with something changed; `null` if there was none. */
export function becameOf(before: Scene, now: Scene): string | null {
  const [old] = before.violations;
  if (old === undefined) return null;
  const what = propertyLabel(old.property);
  const still = now.violations.find((it) => it.property === old.property && it.resource === old.resource);
  if (still !== undefined) {
    const [was, is] = [lengthOf(old), lengthOf(still)];
    return was === is
      ? `The violation of ${what} stays as it was.`
      : `The violation of ${what} stays: it lasts ${is} instead of ${was}.`;
  }
  const gone = `The violation of ${what} from ${formatDurationMs(old.atUs)} ms on is gone`;
  const other = now.violations[0];
  if (other !== undefined) return `${gone}; instead, ${propertyLabel(other.property)} is violated.`;
  const how = howGone(old.clients, now);
  return `${gone}${how === '' ? '' : `: ${how}`}.`;
}

function lengthOf({ atUs, untilUs }: Scene['violations'][number]): string {
  return `${formatDurationMs((untilUs ?? atUs) - atUs)} ms`;
}

/** Who no longer holds the lock, or who now comes after whom. */
function howGone(clients: readonly string[], now: Scene): string {
  const without = clients.find((client) => !now.claims.some((it) => it.client === client));
  if (without !== undefined) {
    const failed = now.events.find((it) => it.process === without && it.kind === 'acquire-failed');
    return failed === undefined ? `${without} does not get the lock` : `${without} gives up: ${reasonWords(failed)}`;
  }
  const [first, second] = now.claims.filter((it) => clients.includes(it.client));
  if (first === undefined || second === undefined || second.fromUs < first.endUs) return '';
  return `${first.client} holds it until ${formatDurationMs(first.endUs)} ms, and ${second.client} from ${formatDurationMs(second.fromUs)} ms on`;
}
