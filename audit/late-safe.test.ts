import { expect, it } from 'vitest';
import { isHarmful, isSafeLate } from './late-safe.js';
import { unknownValue } from './unknown.js';

it('sees a store on the condition of a value that it changes', () => {
  expect(isSafeLate([{ where: { id: 'a', status: 'OPEN' }, data: { status: 'PAID' } }])).toBe(true);
  expect(
    isSafeLate([
      { _id: 'a', revision: 1 },
      { $set: { bins: [] }, $inc: { revision: 1 } },
    ]),
  ).toBe(true);
  expect(isSafeLate(["UPDATE orders SET status = 'paid' WHERE id = $1 AND status = 'open'", ['a']])).toBe(true);
});

it('sees a store that overwrites whatever is there', () => {
  expect(isSafeLate([{ where: { id: 'a' }, data: { status: 'PAID' } }])).toBe(false);
  expect(isSafeLate([{ _id: 'a' }, { $set: { bins: [] } }])).toBe(false);
  expect(isSafeLate(["UPDATE orders SET status = 'paid' WHERE id = $1", ['a']])).toBe(false);
  expect(isSafeLate([])).toBe(false);
});

it('sees an idempotency key, and the condition of a command', () => {
  expect(isSafeLate([{ amount: 1 }, { idempotencyKey: 'a' }])).toBe(true);
  expect(isSafeLate(['/vouchers', {}, { headers: { 'idempotency-key': 'a' } }])).toBe(true);
  expect(isSafeLate([{ amount: 1 }, { timeout: 5 }])).toBe(false);
  const Command = unknownValue({}, 'a', '.UpdateCommand') as new (input: unknown) => unknown;
  expect(isSafeLate([new Command({ TableName: 'a', ConditionExpression: 'token = :old' })])).toBe(true);
  expect(isSafeLate([new Command({ TableName: 'a' })])).toBe(false);
});

it('sees a record that is added once, and the id of a job', () => {
  expect(isSafeLate(['INSERT INTO payouts (id) VALUES ($1) ON CONFLICT (tenant_id, key) DO NOTHING', ['a']])).toBe(
    true,
  );
  expect(isSafeLate(['INSERT IGNORE INTO payouts (id) VALUES (?)', ['a']])).toBe(true);
  expect(isSafeLate(['INSERT INTO payouts (id) VALUES ($1) ON CONFLICT (id) DO UPDATE SET n = 1', ['a']])).toBe(false);
  expect(isSafeLate(['send', { payoutId: 'a' }, { jobId: 'payout-a' }])).toBe(true);
  expect(isSafeLate(['send', { payoutId: 'a' }])).toBe(false);
});

it('takes a call that is handed an error, and one that gives a connection up, for harmless', () => {
  expect(isHarmful('next', [new Error('it failed')])).toBe(false);
  expect(isHarmful('.Pool.connect.release', [])).toBe(false);
  expect(isHarmful('.stock.release', ['a'])).toBe(true);
});
