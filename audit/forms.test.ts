import { expect, it } from 'vitest';
import { formed, periodFor } from './forms.js';

it('names things in the form that a file asks for', () => {
  expect(formed('a', ['const UUID = /^[0-9a-f]{8}-[0-9a-f-]{27}$/i;'])).toMatch(/^00000000-0000-4000-8000-/);
  expect(formed('a', ['if (!/^[A-Z0-9]{4,16}$/.test(code)) return;'])).toMatch(/^[A-Z0-9]{8}$/);
  expect(formed('a', ['/^\\d{8}$/.test(order)'])).toMatch(/^\d{8}$/);
  expect(formed('a', ['/^[A-Z]{2}-\\d{4}$/'])).toMatch(/^AB-\d{4}$/);
  expect(formed('a', ['nothing is asked'])).toMatch(/^00000000-/);
});

it('gives another name for another name', () => {
  const texts = ['/^[A-Z0-9]{4,16}$/'];
  expect(formed('a', texts)).not.toBe(formed('b', texts));
  expect(formed('a', ['/^\\d{8}$/'])).not.toBe(formed('b', ['/^\\d{8}$/']));
});

it('names things as a list has them in which a file looks', () => {
  expect(['160', '320']).toContain(formed('a', ['if (![160, 320].includes(width)) return;']));
  const texts = [
    "const REGIONS = new Set<string>(['eu-west', 'us-east']); if (!REGIONS.has(region)) return;",
    '/^[a-z]{2}-[a-z]+$/.test(region)',
  ];
  expect(['eu-west', 'us-east']).toContain(formed('a', texts));
  expect(formed('a', texts)).not.toBe(formed('b', texts));
  // Nothing is looked for in it.
  expect(formed('a', ["const WORDS = ['one', 'two']; if (id.length < 8) return;"])).toMatch(/^00000000-/);
});

it('ends a stay after its beginning, and soon', () => {
  for (const name of ['a', 'b', 'a2']) {
    const [from = '', to = ''] = ['arrival', 'departure'].map((it) => periodFor(it, name));
    expect(Date.parse(to) - Date.parse(from)).toBe(86_400_000);
    expect([periodFor('checkIn', name), periodFor('checkOutDate', name)]).toEqual([from, to]);
  }
});
