import { expect, it } from 'vitest';
import { requiredTypes } from './required.js';

const of = (...texts: readonly string[]): Record<string, unknown> => Object.fromEntries(requiredTypes(texts));

it('requires to be absent what nothing is done with', () => {
  expect(of('if (row.sold || (row.held && row.by !== id)) return 409;')).toEqual({ sold: 'absent', held: 'absent' });
  expect(of('for (const it of all) { if (it.paid) continue; await pay(it); }')).toEqual({ paid: 'absent' });
  expect(of('if (order.closed as boolean) throw new Error("closed");')).toEqual({ closed: 'absent' });
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
});

it('requires a type where files check one', () => {
  expect(of("if (typeof body.amount !== 'number') return 400;")).toEqual({ amount: 'number' });
  expect(of('if (!Array.isArray(body.items)) return 400;')).toEqual({ items: 'list' });
});
