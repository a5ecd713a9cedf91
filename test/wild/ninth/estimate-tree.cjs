'use strict';
const { randomUUID } = require('node:crypto');
const Valkey = require('iovalkey');

// Estimates contain estimates. Recalculating one locks the project, and so does
// each child, hence a lock which its owner may take again. The owner is passed
// along explicitly (ctx), never guessed.
//
// The hash: owner -> who, h:<id> -> 1 for each hold. Holds are named and not
// counted, so that a command which the client sends twice does no harm.
const ENTER = `
local owner = redis.call('HGET', KEYS[1], 'owner')
if ARGV[4] == 'first' then
  if owner and owner ~= ARGV[1] then return 0 end
else
  if owner ~= ARGV[1] then return -1 end
end
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'h:' .. ARGV[2], '1')
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`;

const LEAVE = `
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
redis.call('HDEL', KEYS[1], 'h:' .. ARGV[2])
if redis.call('HLEN', KEYS[1]) == 1 then redis.call('DEL', KEYS[1]) end
return 1`;

const TTL = 10000;
const SLACK = 300;

function createProjectLock(valkey = new Valkey(process.env.VALKEY_URL || 'redis://localhost:6379')) {
  valkey.on('error', (e) => console.warn('estimates:', e.message));

  /**
   * Runs fn(ctx). Pass ctx to a nested call to enter again. ctx.check() must be
   * called before each write; entering again prolongs the whole, as does
   * ctx.touch(). Children must be awaited.
   */
  async function withProject(projectId, fn, ctx) {
    const key = `estimate:project:{${projectId}}`;
    const nested = ctx !== undefined && ctx.key === key;
    const mine = nested ? ctx : { key, owner: randomUUID(), until: 0, lost: false };
    const hold = randomUUID();

    const enter = async (id, how) => {
      const sent = performance.now();
      const r = await valkey.eval(ENTER, 1, key, mine.owner, id, TTL, how);
      if (r === 1) {
        if (how === 'again' && performance.now() >= mine.until) mine.lost = true;
        if (!mine.lost) mine.until = Math.max(mine.until, sent + TTL - SLACK);
        return true;
      }
      if (r === -1) mine.lost = true;
      return false;
    };

    if (!nested) {
      mine.check = () => {
        if (performance.now() >= mine.until) mine.lost = true;
        if (mine.lost) throw new Error(`project ${projectId}: lock lost`);
      };
      mine.touch = () => enter(hold, 'again');
    }

    const leave = () =>
      valkey.eval(LEAVE, 1, key, mine.owner, hold).catch((e) => console.warn(`project ${projectId}: leave:`, e.message));

    let entered = false;
    try {
      entered = await enter(hold, nested ? 'again' : 'first');
    } catch (err) {
      await leave();
      throw err;
    }
    if (!entered) throw new Error(nested ? `project ${projectId}: lock lost` : `project ${projectId} is busy`);

    try {
      mine.check();
      return await fn(mine);
    } finally {
      await leave();
    }
  }

  return { withProject };
}

async function recalculate(lock, store, projectId, estimateId, ctx) {
  return lock.withProject(
    projectId,
    async (c) => {
      let total = await store.ownCost(estimateId);
      for (const child of await store.children(estimateId)) {
        total += await recalculate(lock, store, projectId, child, c);
      }
      c.check();
      await store.saveTotal(estimateId, total);
      return total;
    },
    ctx,
  );
}

module.exports = { createProjectLock, recalculate };
