/** What JSON has for an object. */
export type PlainObject = { readonly [field: string]: unknown };

/** Whether a value of JSON is an object, and no list. */
export function isPlainObject(value: unknown): value is PlainObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Whether a value of JSON is a whole number from 0. */
export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
