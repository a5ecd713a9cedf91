import { expect, it } from 'vitest';
import { formed } from './forms.js';

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
