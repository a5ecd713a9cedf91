/** Takes everything out of a list, which keeps its room: `length = 0` gives it back. */
export function empty(list: unknown[]): void {
  while (list.length > 0) list.pop();
}

/** Takes an item out of a short list, if it is there. */
export function remove<T>(list: T[], item: T): void {
  const at = list.indexOf(item);
  if (at >= 0) removeAt(list, at);
}

/** As `splice(at, 1)`, which makes a list of what it took and so is ten times slower. */
export function removeAt<T>(list: T[], at: number): void {
  for (let i = at + 1; i < list.length; i++) list[i - 1] = list[i] as T;
  list.pop();
}

/** The other way round, without the list that `splice(at, 0, item)` makes. */
export function insertAt<T>(list: T[], at: number, item: T): void {
  list.push(item);
  for (let i = list.length - 1; i > at; i--) list[i] = list[i - 1] as T;
  list[at] = item;
}
