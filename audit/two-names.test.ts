import { expect, it } from 'vitest';
import { twoNames } from './two-names.js';

const by = (expression: string, column: string): string => `
  await withLock(${expression}, async () => {
    const { rows } = await db.query('SELECT * FROM plans WHERE ${column} = $1', [${expression}]);
    await db.query('UPDATE plans SET seats = $1 WHERE id = $2', [1, rows[0].id]);
  });`;
const two = (one: string, other: string): string => `
app.post('/plans/:id', async (c) => { const id = c.req.param('id'); ${one} });
app.post('/hook', async (c) => { const plan = await c.req.json(); ${other} });`;

it('finds two names of one record', () => {
  const defect = twoNames([two(by('id', 'id'), by('plan.id', 'billing_id'))]);
  expect(defect?.id).toBe('two-names');
  expect(defect?.sentence).toContain('by id, the id of plans (line 4), and by plan.id, its billing_id');
});

it('finds the same of a mapper, and of a name that is put into a text', () => {
  const of = (expression: string, column: string): string => `
  const held = await acquire(\`order:\${${expression}}\`);
  const order = await prisma.order.findUnique({ where: { ${column}: ${expression} } });`;
  expect(twoNames([two(of('id', 'id'), of('plan.number', 'number'))])?.id).toBe('two-names');
});

it('finds nothing where both name the record alike, lock by its own column, or lock something else', () => {
  expect(twoNames([two(by('id', 'id'), by('plan.id', 'id'))])).toBeNull();
  const looked = "const { rows } = await db.query('SELECT id FROM plans WHERE billing_id = $1', [plan.id]);";
  expect(twoNames([two(by('id', 'id'), `${looked} ${by('rows[0].id', 'id')}`)])).toBeNull();
  expect(twoNames([two(by('id', 'id'), by('plan.id', 'billing_id').replace('withLock', 'withHookLock'))])).toBeNull();
});
