import type { Policy } from './policy.js';

/**
 * Whether a round is decided: with `yes` votes for it and `against` it (errors and time-outs among them), while `pending`
 * nodes may still answer. `needed` votes make it, `wanted` are waited for.
 */
export function settled(
  settle: Policy['settle'],
  yes: number,
  against: number,
  pending: number,
  needed: number,
  wanted: number,
): 'yes' | 'no' | 'open' {
  if (settle === 'quorum-only') return yes >= needed ? 'yes' : against >= needed ? 'no' : 'open';
  if ((settle === 'early' || settle === 'early-yes') && yes >= wanted) return 'yes';
  if ((settle === 'early' || settle === 'early-no') && yes + pending < needed) return 'no';
  if (pending > 0) return 'open';
  return yes >= needed ? 'yes' : 'no';
}
