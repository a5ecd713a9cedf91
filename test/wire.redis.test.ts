import seedrandom from 'seedrandom';
import { describe, expect, it } from 'vitest';
import { Comparison } from '../bench/wire/compare.js';
import { real, simulated } from '../bench/wire/servers.js';
import { findFaketime } from '../real/provisioner/fake-clock.js';

describe.skipIf(findFaketime() === undefined)('a simulated server beside redis-server', () => {
  it('answers random commands in the same way', async () => {
    await using redis = await real();
    await using node = await simulated();
    const comparison = new Comparison(redis, node, seedrandom('test'));
    while (comparison.commands < 3000) await comparison.sequence();
    expect(comparison.differences).toEqual([]);
  });

  it('would be found out if it did not', async () => {
    await using redis = await real();
    await using node = await simulated();
    const wrong = {
      ...node,
      open: async () => {
        const side = await node.open();
        return {
          ask: (commands: readonly (readonly string[])[]) =>
            side.ask(commands.map((argv) => (argv[0] === 'ZADD' ? ['ZREM', argv[1] ?? '', 'x'] : argv))),
        };
      },
    };
    const comparison = new Comparison(redis, wrong, seedrandom('test'));
    while (comparison.commands < 2000) await comparison.sequence();
    expect(comparison.differences.length).toBeGreaterThan(0);
  });
});
