import { expect, it } from 'vitest';
import { isSafeLate } from './late-safe.js';
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
