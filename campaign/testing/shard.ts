import { runShard } from '../local.js';
import type { CampaignPart } from '../part.js';
import type { CampaignSpec } from '../spec.js';

const { signal } = new AbortController();

/** Makes one shard of a campaign, in this thread. */
export function shard(spec: CampaignSpec, number: number, of: number, from?: CampaignPart): Promise<CampaignPart> {
  return runShard({ spec, shard: { number, of }, workers: 1, signal, onPart: () => {}, ...(from && { from }) });
}

/** What several tests look at and none changes: made when the first asks. */
export function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | null = null;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
