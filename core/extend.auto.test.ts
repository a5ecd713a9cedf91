import { describe, expect, it } from 'vitest';
import { heldLock, ms } from './testing/lock.js';

const auto = { settings: { autoExtendAtUs: 3_000_000, autoExtendSpacingUs: 100_000 } } as const;

describe('automatic extension', () => {
  it('is off unless asked for', () => {
    const lock = heldLock().extend().yes(0, 1, 2);
    expect(lock.armed.has('auto-extend')).toBe(false);
    expect(lock.extend().no(0, 1, 2).armed.has('auto-extend')).toBe(false);
    for (const effect of lock.release().effects) expect(effect).not.toMatchObject({ timer: 'auto-extend' });
    for (const effect of heldLock().at(9_898).fire('expiry').effects) {
      expect(effect).not.toMatchObject({ timer: 'auto-extend' });
    }
  });

  it('is due when the validity left has come down to what the policy says', () => {
    const lock = heldLock(auto);
    expect(lock.armed.get('auto-extend')).toBe(9_898 - 3_000);
    lock.at(6_898).fire('auto-extend');
    expect(lock.sent).toEqual([{ operation: 'extend', to: [0, 1, 2, 3, 4], attempt: 0, round: 0 }]);
    expect(lock.newest().ttlMs).toBe(10_000);
    expect(lock.armed.get('extension')).toBe(6_948);
  });

  it('reports each success and plans the next from the new deadline', () => {
    const lock = heldLock(auto).at(6_898).fire('auto-extend').at(6_900).yes(0, 1, 2);
    expect(lock.outcome).toMatchObject({ type: 'extended', deadline: ms(6_898 + 9_898) });
    expect(lock.armed.get('auto-extend')).toBe(6_898 + 9_898 - 3_000);
  });

  it('comes at once for the first time where less than that is left from the start', () => {
    const lock = heldLock(auto, 1_000);
    expect(lock.armed.get('auto-extend')).toBe(2);
    expect(lock.fire('auto-extend').sent).toHaveLength(1);
  });

  it('keeps its spacing from then on', () => {
    const lock = heldLock(auto, 1_000).at(4).fire('auto-extend').at(6).yes(0, 1, 2);
    expect(lock.armed.get('auto-extend')).toBe(106);
    lock.at(106).fire('auto-extend').at(108).no(0, 1, 2);
    expect(lock.armed.get('auto-extend')).toBe(208);
  });

  it('keeps a lock whose TTL is shorter than the spacing alive for one extension', () => {
    const lock = heldLock({ settings: { autoExtendAtUs: 50_000, autoExtendSpacingUs: 100_000 } }, 100);
    expect(lock.armed.get('auto-extend')).toBe(97 - 50);
  });

  it('tries again after the spacing when a round fails, and the owner hears of each', () => {
    const lock = heldLock(auto).at(6_898).fire('auto-extend').at(6_948).fire('extension');
    expect(lock.outcome).toMatchObject({ type: 'not-extended', reason: 'unreachable' });
    expect(lock.armed.get('auto-extend')).toBe(7_048);
    lock.at(7_048).fire('auto-extend');
    expect(lock.sent).toMatchObject([{ operation: 'extend', round: 1 }]);
  });

  it('tries again too when the new claim came too late to be worth anything', () => {
    const lock = heldLock({ settings: { ...auto.settings, nodeTimeoutUs: null } }, 10_000)
      .at(6_898)
      .extend(100)
      .at(7_000)
      .yes(0, 1, 2);
    expect(lock.outcome).toMatchObject({ type: 'not-extended', reason: 'too-late' });
    expect(lock.armed.get('auto-extend')).toBe(7_100);
  });

  it('is not brought forward by a failed extension of the owner', () => {
    const lock = heldLock(auto).at(1_000).extend().at(1_002).no(0, 1, 2);
    expect(lock.armed.get('auto-extend')).toBe(6_898);
  });

  it('is put off by an extension of the owner that succeeds', () => {
    const lock = heldLock(auto).at(1_000).extend(60_000).at(1_002).yes(0, 1, 2);
    expect(lock.armed.get('auto-extend')).toBe(1_000 + 59_398 - 3_000);
  });

  it('gives way to an extension under way, which plans the next', () => {
    const lock = heldLock(auto).at(6_890).extend().at(6_898).fire('auto-extend');
    expect(lock.effects).toEqual([]);
    expect(lock.at(6_900).no(0, 1, 2).armed.get('auto-extend')).toBe(7_000);
  });

  it('stops at the limit of extensions', () => {
    const lock = heldLock({ settings: { ...auto.settings, maxExtensions: 1 } })
      .at(6_898)
      .fire('auto-extend')
      .at(6_900)
      .yes(0, 1, 2);
    expect(lock.armed.has('auto-extend')).toBe(false);
    expect(lock.fire('auto-extend').effects).toEqual([]);
    expect(heldLock({ settings: { ...auto.settings, maxExtensions: 0 } }).armed.has('auto-extend')).toBe(false);
  });

  it('goes on for ever where the policy sets no limit', () => {
    const lock = heldLock({ settings: { ...auto.settings, maxExtensions: null } });
    for (let round = 0; round < 20; round++) {
      lock
        .at(lock.armed.get('auto-extend') ?? Number.NaN)
        .fire('auto-extend')
        .yes(0, 1, 2);
    }
    expect(lock.state.hold.extensions).toBe(20);
  });

  it('is stopped by the release, also when its timer goes off all the same', () => {
    const lock = heldLock(auto).at(100).release();
    expect(lock.effects).toContainEqual({ type: 'cancel', timer: 'auto-extend' });
    expect(lock.armed.has('auto-extend')).toBe(false);
    expect(lock.at(6_898).fire('auto-extend').effects).toEqual([]);
  });

  it('is stopped in the middle of a round by the release, after which nothing plans another', () => {
    const lock = heldLock(auto).at(6_898).fire('auto-extend');
    const extension = lock.newest();
    lock.release().answer(extension, 'yes', 0, 1, 2);
    expect(lock.phase).toBe('releasing');
    expect([...lock.armed.keys()]).toEqual(['release']);
    expect(lock.effects).toEqual([]);
  });

  it('is stopped by the loss, and does not revive the lock', () => {
    const lock = heldLock(auto).at(9_898).fire('expiry');
    expect(lock.effects).toContainEqual({ type: 'cancel', timer: 'auto-extend' });
    expect(lock.fire('auto-extend').effects).toEqual([]);
    const lateTimer = heldLock(auto).at(9_898).fire('auto-extend');
    expect(lateTimer.effects).toEqual([]);
  });

  it('stays stopped when a round under way is refused for coming after the loss', () => {
    const lock = heldLock({ ...auto, deviations: ['extends-late'] })
      .at(9_890)
      .extend()
      .at(9_898)
      .fire('expiry');
    lock.at(9_899).no(0, 1, 2);
    expect(lock.armed.has('auto-extend')).toBe(false);
  });
});
