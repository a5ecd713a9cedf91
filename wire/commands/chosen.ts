/** `count` places of `size` at random, each at most once, in the order of their drawing. */
function drawDistinct(size: number, count: number, random: () => number): number[] {
  const places = Array.from({ length: size }, (_, i) => i);
  for (let i = 0; i < count && i < size; i++) {
    const j = i + Math.floor(random() * (size - i));
    [places[i], places[j]] = [places[j] ?? 0, places[i] ?? 0];
  }
  return places.slice(0, count);
}

/** What a count asks for: distinct elements, or as many as it says, with repetitions, if it is negative. */
export function drawFrom<T>(items: readonly T[], count: number, random: () => number): T[] {
  if (items.length === 0) return [];
  if (count >= items.length) return [...items];
  const places =
    count >= 0
      ? drawDistinct(items.length, count, random)
      : Array.from({ length: -count }, () => Math.floor(random() * items.length));
  return places.flatMap((place) => items.slice(place, place + 1));
}
