import { expect, it } from 'vitest';
import { refusesLate, storesAnyFence } from './fences.js';
import type { Bench } from './load.js';

it.each([
  ['`UPDATE accounts SET balance = $1, fence = $2 WHERE id = $3`', true],
  ['`UPDATE accounts SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2`', false],
  ['`UPDATE accounts SET balance = $1, fencing_token = ? WHERE id = ? AND version = ?`', false],
  ["await db('rows').where({ id }).update({ html, fence: String(token) });", true],
  ["await db('rows').where({ id }).andWhere('fence', '<=', token).update({ html, fence: token });", false],
  ['await db.update(rows).set({ html, fence }).where(eq(rows.id, id));', true],
  ['await db.update(rows).set({ html, fence }).where(and(eq(rows.id, id), lte(rows.fence, fence)));', false],
  ['await prisma.row.updateMany({ where: { id, fence: { lte: token } }, data: { html, fence: token } });', false],
  ['await prisma.row.update({ where: { id }, data: { html, fence: token } });', true],
  ['await tx.one("SELECT * FROM rows WHERE id = $1 FOR UPDATE"); `UPDATE rows SET fence = $2 WHERE id = $1`', false],
  ['rows.set(id, { ...row, fence });', false],
])('sees whether a fencing token is stored whatever token there is: %s', (text, stores) => {
  expect(storesAnyFence(text)).toBe(stores);
});

it.each([
  ['await rows.save(row.id, row.version, charge);', true],
  ['// The update tells who was first.\nawait rows.save(row.id, row.version, charge);', true],
  ['await db.query("UPDATE rows SET a = $2 WHERE id = $1", [row.id, row.version, 1]);', false],
  ['await db.query("UPDATE rows SET a = $3 WHERE id = $1 AND version = $2", [row.id, row.version, 1]);', true],
])('sees whether a store is on the condition of a version: %s', (text, refuses) => {
  expect(refusesLate({ program: { sources: [{ text }] } } as unknown as Bench)).toBe(refuses);
});
