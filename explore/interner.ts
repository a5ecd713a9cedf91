/** Gives equal values one small number each, in the order in which they are first met. */
export class Interner<T> {
  readonly values: T[] = [];
  private readonly ids = new Map<string, number>();
  private readonly most: number;
  private readonly what: string;

  /** @param most - More distinct values than this end the exploration with a `RangeError` that names `what`. */
  constructor(what: string, most: number) {
    this.what = what;
    this.most = most;
  }

  /** The number of `value`; `key` must be equal for equal values, and only for those. */
  intern(key: string, value: T): number {
    const known = this.ids.get(key);
    if (known !== undefined) return known;
    if (this.values.length >= this.most) throw new RangeError(`these bounds need more than ${this.most} ${this.what}`);
    const id = this.values.length;
    this.values.push(value);
    this.ids.set(key, id);
    return id;
  }

  at(id: number): T {
    const value = this.values[id];
    if (value === undefined) throw new RangeError(`there is no ${this.what} ${id}`);
    return value;
  }
}

/** Results by two small numbers, -1 where there is none yet. */
export class Memo {
  private readonly rows: (number[] | undefined)[] = [];

  get(a: number, b: number): number {
    return this.rows[a]?.[b] ?? -1;
  }

  set(a: number, b: number, result: number): number {
    let row = this.rows[a];
    if (row === undefined) {
      row = [];
      this.rows[a] = row;
    }
    // Filled up, because an array with holes is a slow one.
    while (row.length <= b) row.push(-1);
    row[b] = result;
    return result;
  }
}
