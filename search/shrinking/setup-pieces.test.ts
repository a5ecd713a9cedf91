import { describe, expect, it } from 'vitest';
import { type Fault, parseSchedule } from '../../scenarios/index.js';
import { lock, schedule } from '../../sim/testing/schedule.js';
import { shrink } from '../shrink.js';
import { setupPiecesOf } from './setup-pieces.js';

const fsync = { firstUs: 7, everyUs: 20_000, takesUs: 3 };
const AFTER_VOTE = { atUs: 5_000, edge: 'after', restartAfterUs: 0 } as const;
const full = schedule({
  cluster: { persistence: 'everysec', fsync, scripts: 'by-hash' },
  views: [{ timing: { clock: 'wall' } }],
  locks: [[lock(0)], [lock(1)]],
  faults: [
    ...['n0', 'n2', 'n3'].map((node): Fault => ({ kind: 'crash', node, ...AFTER_VOTE, power: true })),
    { kind: 'crash', node: 'n1', atUs: 9_000, edge: 'after', restartAfterUs: 0, clean: true },
  ],
});

describe('the set-up of a schedule', () => {
  it('can do without fsyncs, hashes and timing, each by itself', () => {
    const names = setupPiecesOf(full).map(({ name }) => name);
    expect(names).toEqual(['the times of the fsyncs', 'scripts by hash', 'the own timing of c1']);
    for (const { name, without } of setupPiecesOf(full)) {
      const less = without();
      expect(parseSchedule(less)).toEqual(less);
      expect(setupPiecesOf(less).map((it) => it.name)).not.toContain(name);
    }
  });

  it('has nothing to leave out where it is as usual', () => {
    expect(setupPiecesOf(schedule({ locks: [[lock(0)]] }))).toEqual([]);
  });

  it('keeps none of it where a failure does not need it', () => {
    const { cluster, clients, faults } = shrink(full, 'quorum-backed').schedule;
    // It stays a failure of the disks that were asked about.
    expect([cluster.persistence, cluster.fsync, cluster.scripts]).toEqual(['everysec', undefined, undefined]);
    expect(clients.map(({ timing }) => timing)).toEqual([undefined]);
    expect(faults.every((it) => it.kind === 'crash' && it.power === true)).toBe(true);
  });
});
