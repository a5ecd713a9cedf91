import { describe, expect, it } from 'vitest';
import { monitorCosts } from './monitor-costs.js';
import { Player } from './workload.js';

describe('the costs of monitors', () => {
  it('finds every monitor in the place where it is muted', () => {
    const player = new Player();
    const costs = monitorCosts((run, alter) => player.play(run, alter), 1, 1);
    expect(costs).toHaveLength(15);
    expect(player.histories).toBe(2 * costs.length);
  });
});
