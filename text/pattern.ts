/** A text as a part of a regular expression that matches it as it is. */
export function asPattern(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
}
