import { randomUUID } from 'node:crypto';
import type { Redis } from '@upstash/redis';

export type MarcRecord = { controlNumber: string; title: string; updated: string };
export type Page = { records: MarcRecord[]; cursor: string; more: boolean };

export interface UnionCatalogue {
  changesSince(cursor: string): Promise<Page>;
}

export interface LocalCatalogue {
  cursor(): Promise<string>;
  /** applies the records and moves the cursor in one transaction; a page takes one or two seconds */
  apply(records: MarcRecord[], cursor: string): Promise<void>;
}

const LOCK_SECONDS = 90;

const PROLONG = `
local mine = redis.call('GET', KEYS[1]) == ARGV[1]
if not mine then return 0 end
return redis.call('EXPIRE', KEYS[1], ARGV[2])`;

const UNLOCK = `
local mine = redis.call('GET', KEYS[1]) == ARGV[1]
if not mine then return 0 end
return redis.call('DEL', KEYS[1])`;

export class HarvestLockLost extends Error {}

/**
 * Pages of changes of one branch, read under the branch's harvest lock.
 * The lock is prolonged before each page is handed out and given back when the
 * loop over the pages ends, however it ends. Yields nothing when a harvest is running.
 */
export async function* lockedChanges(
  redis: Redis,
  branch: string,
  union: UnionCatalogue,
  startCursor: () => Promise<string>,
): AsyncGenerator<Page, void, void> {
  const key = `harvest:${branch}`;
  const owner = `harvester-${randomUUID()}`;

  const got = await redis.set(key, owner, { nx: true, ex: LOCK_SECONDS });
  if (got === null) return;

  try {
    let cursor = await startCursor();
    let more = true;
    while (more) {
      const page = await union.changesSince(cursor);
      const prolonged = await redis.eval<[string, string], number>(PROLONG, [key], [owner, String(LOCK_SECONDS)]);
      if (prolonged !== 1) throw new HarvestLockLost(branch);
      yield page;
      ({ cursor, more } = page);
    }
  } finally {
    await redis.eval<[string], number>(UNLOCK, [key], [owner]).catch((err: unknown) => {
      console.warn(`harvest ${branch}: lock not given back, expires in ${LOCK_SECONDS}s`, err);
    });
  }
}

export async function harvest(
  redis: Redis,
  branch: string,
  union: UnionCatalogue,
  local: LocalCatalogue,
): Promise<{ records: number }> {
  let records = 0;
  for await (const page of lockedChanges(redis, branch, union, () => local.cursor())) {
    if (page.records.length === 0) break;
    await local.apply(page.records, page.cursor);
    records += page.records.length;
  }
  return { records };
}
