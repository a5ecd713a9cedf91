import { randomUUID } from 'node:crypto';

const DELETE_MINE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
else
  return 0
end`;

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** @returns {Promise<boolean>} whether the answer came in time and was as wanted; never rejects */
function check(answer, wanted, ms) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms, false);
    const settle = (result) => {
      clearTimeout(timer);
      resolve(result);
    };
    answer.then(
      (value) => settle(value === wanted),
      () => settle(false),
    );
  });
}

/**
 * A round of voting ends as soon as it is decided. The last nodes need not be waited for: what they set belongs to the same token,
 * and each connection delivers our later delete after our set.
 */
function decide(votes, quorum) {
  return new Promise((resolve) => {
    let yes = 0;
    let no = 0;
    for (const vote of votes)
      vote.then((granted) => {
        if (granted) yes++;
        else no++;
        if (yes >= quorum) resolve(true);
        else if (no > votes.length - quorum) resolve(false);
      });
  });
}

/** @param {{ nodes: import('ioredis').Redis[] }} bed */
export function make({ nodes }) {
  const quorum = Math.floor(nodes.length / 2) + 1;

  const wipe = (resource, token, ms) =>
    Promise.all(nodes.map((node) => check(node.eval(DELETE_MINE, 1, resource, token), 1, ms)));

  return {
    async acquire(resource, ttl) {
      const ms = Math.max(20, ttl / 4);
      for (let round = 1; ; round++) {
        const token = randomUUID();
        const end = performance.now() + ttl - (Math.ceil(ttl / 100) + 2);
        const votes = nodes.map((node) => check(node.set(resource, token, 'PX', ttl, 'NX'), 'OK', ms));
        const won = await decide(votes, quorum);
        if (won && performance.now() < end) {
          let released = false;
          return {
            remaining: () => (released ? 0 : Math.max(0, end - performance.now())),
            async release() {
              released = true;
              await wipe(resource, token, ms);
            },
          };
        }
        await wipe(resource, token, ms);
        if (round === 5) return null;
        await wait(20 * round + Math.random() * 80);
      }
    },
  };
}
