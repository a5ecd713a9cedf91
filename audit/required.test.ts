import { expect, it } from 'vitest';
import { argumentsIn, requiredIn, requiredTypes } from './required.js';

const of = (...texts: readonly string[]): Record<string, unknown> => Object.fromEntries(requiredTypes(texts));

it('requires to be absent what nothing is done with', () => {
  expect(of('if (row.sold || (row.held && row.by !== id)) return 409;')).toEqual({ sold: 'absent', held: 'absent' });
  expect(of('for (const it of all) { if (it.paid) continue; await pay(it); }')).toEqual({ paid: 'absent' });
  expect(of('if (order.closed as boolean) throw new Error("closed");')).toEqual({ closed: 'absent' });
});

it('requires the next page to be absent where a loop ends without one', () => {
  expect(of('let url = feed; while (url) { const page = await load(url); url = page.next; }')).toEqual({
    next: 'absent',
  });
  expect(of('do { cursor = (await load(cursor)).nextCursor ?? null; } while (cursor !== null);')).toEqual({
    nextCursor: 'absent',
  });
  expect(of('for (;;) { const page = await load(); if (!page.more) return page; }')).toEqual({ more: 'absent' });
  expect(of('do { page = await load(page.at); } while (page.hasNextPage);')).toEqual({ hasNextPage: 'absent' });
  expect(of('while (id) { const row = await load(id); id = row.id; }')).toEqual({});
  expect(of('for (;;) { const row = await load(); if (!row.paid) return row; }')).toEqual({});
});

it('requires nothing to be absent that elsewhere has to be there', () => {
  expect(of('if (row.held) return 409; if (!row.held) await hold(row);')).toEqual({});
  expect(of('if (!order.paid) return; if (order.paid) return ship(order);')).toEqual({});
  expect(of('if (row.sold) { await refund(row); }')).toEqual({});
});

it('requires a state, where files require one alone', () => {
  expect(of("if (order.status !== 'open') return;")).toEqual({ status: { text: 'open' } });
  expect(of("if (order.status !== 'open') return;", "if (order.status !== 'paid') return;")).toEqual({});
});

it('requires the first state for which a switch does something', () => {
  const text = `switch (event.type) {
    case 'ping': return;
    case 'paid': return book(event);
    case 'refunded': return undo(event);
  }`;
  expect(of(text)).toEqual({ type: { text: 'paid' } });
  expect(of(text.replace('event.type', 'type'))).toEqual({ type: { text: 'paid' } });
});

it('requires a type where files check one', () => {
  expect(of("if (typeof body.amount !== 'number') return 400;")).toEqual({ amount: 'number' });
  expect(of('if (!Array.isArray(body.items)) return 400;')).toEqual({ items: 'list' });
});

it('requires a form where files check one by an expression for the whole text', () => {
  expect(of("if (!/^ord_\\d+$/.test(order.id)) throw new Error('id');")).toEqual({ id: { pattern: 'ord_\\d+' } });
  const named = "const SKU = /^[A-Z]{3}$/; function take(sku: string) { if (!SKU.test(sku ?? '')) return; }";
  expect(of(named)).toEqual({ sku: { pattern: '[A-Z]{3}' } });
  expect(of("if (/\\s/.test(order.id)) throw new Error('id');")).toEqual({});
});

it('gives a script arguments of the forms that it asks for', () => {
  const script =
    "const [company, period] = process.argv.slice(2);\nif (!company || !/^\\d{4}-\\d{2}$/.test(period ?? '')) process.exit(2);";
  const [company, period] = argumentsIn(script) ?? [];
  expect(company).toBe('a');
  expect(period).toMatch(/^\d{4}-\d{2}$/);
  expect(argumentsIn('const [name] = process.argv.slice(2);')).toBeNull();
  const before =
    "const [env, dashes, ...command] = process.argv.slice(2);\nif (!env || dashes !== '--') process.exit(64);";
  expect(argumentsIn(before)?.slice(0, 2)).toEqual(['a', '--']);
});

it('requires one text of what has to be equal', () => {
  expect(of("if (show.domeId !== domeId) throw new Error('other');")).toEqual({ domeId: 'string' });
  expect(of('if (row.amount !== expected) return;')).toEqual({});
});

it('requires two arguments to differ that are compared, and nothing of one that is compared with a text', () => {
  const unequal = (text: string): string[] => [...requiredIn([text]).unequal];
  expect(unequal("function pay(from, to) { if (from === to) throw new Error('same'); }")).toEqual(['to']);
  expect(unequal("async function take() { return (await ask()).reply === 'OK' ? 1 : null; }")).toEqual([]);
  expect(unequal("function take(reply) { if (reply === 'OK') return; }")).toEqual([]);
});

it.each([
  [
    'an object',
    'const JOBS = { nightly: run, weekly: run } as const;',
    'const job = JOBS[body.kind]; if (!job) return 404;',
  ],
  [
    'a map',
    "const JOBS = new Map([['nightly', run], ['weekly', run]]);",
    "const name = c.req.param('kind'); if (!JOBS.has(name)) return 404;",
  ],
  [
    'a set',
    "const JOBS = new Set(['nightly', 'weekly']);",
    'const { kind: name } = request.params; if (!JOBS.has(name)) return 404;',
  ],
  ['a list', "const JOBS = Object.freeze(['nightly', 'weekly']);", 'if (!JOBS.includes(job.data.kind)) return;'],
])('requires a key of %s in which a value is looked up', (_, table, looks) => {
  expect(of(table + looks)).toEqual({ kind: { among: ['nightly', 'weekly'] } });
});

it.each([
  ['has another value for the rest', 'const WAIT = { busy: 5 }; const ms = WAIT[body.state] ?? 1;'],
  ['is asked by a parameter', 'const SCRIPTS = { take: TAKE }; const run = (name) => redis.eval(SCRIPTS[name]);'],
  ['is a list that is read by an index', "const DAYS = ['mon', 'tue']; const day = DAYS[body.at];"],
])('requires no key of a table that %s', (_, text) => {
  expect(of(text)).toEqual({});
});

it('requires a day where files check that a date is one', () => {
  const day = { pattern: String.raw`\d{4}-\d\d-\d\d` };
  const slot = 'const slot = new Date(body.at);';
  expect(of(`${slot} if (Number.isNaN(slot.getTime())) return 400;`)).toEqual({ at: day });
  expect(of('if (isNaN(Date.parse(at))) throw new Error("no date");')).toEqual({ at: day });
  expect(of(`${slot} if (slot > end) return 400;`)).toEqual({});
});
